//! Pauses between two questions.

use crate::client::Client;

const MILLISECOND: u64 = 1_000_000;

/// A pause that grows.
pub(crate) struct Backoff {
    next: u64,
    max: u64,
}

impl Backoff {
    /// While a shard does not answer.
    pub(crate) const fn lost() -> Self {
        Self { next: 10 * MILLISECOND, max: 1000 * MILLISECOND }
    }

    /// While shards pass a request to and fro, or an inode is nowhere.
    pub(crate) const fn astray() -> Self {
        Self { next: MILLISECOND, max: 250 * MILLISECOND }
    }

    pub(crate) async fn pause(&mut self, client: &Client) {
        self.pause_at_most(client, u64::MAX).await;
    }

    /// A pause that is not longer than patience.
    pub(crate) async fn pause_until(&mut self, client: &Client, deadline: Option<u64>) {
        let left = |at: u64| at.saturating_sub(client.transport.now_nanos());
        self.pause_at_most(client, deadline.map_or(u64::MAX, left)).await;
    }

    /// A pause that is cut to `most` nanoseconds.
    pub(crate) async fn pause_at_most(&mut self, client: &Client, most: u64) {
        let nanos = self.next;
        self.next = (nanos * 2).min(self.max);
        client.transport.sleep(nanos.min(most)).await;
    }
}
