//! Pauses between two tries of a request.

use crate::client::Client;

const MILLISECOND: u64 = 1_000_000;

/// A pause that doubles each time, up to a maximum. Units are nanoseconds.
pub(crate) struct Backoff {
    next: u64,
    max: u64,
}

impl Backoff {
    /// For a shard that does not answer: 10 ms to 1 s.
    pub(crate) const fn lost() -> Self {
        Self { next: 10 * MILLISECOND, max: 1000 * MILLISECOND }
    }

    /// For a session that waits until other mounts' kernels have forgotten: 1 ms to 16 ms.
    pub(crate) const fn recall() -> Self {
        Self { next: MILLISECOND, max: 16 * MILLISECOND }
    }

    /// For a request that shards redirect in circles, or an inode that no shard has: 1 ms to 250
    /// ms.
    pub(crate) const fn astray() -> Self {
        Self { next: MILLISECOND, max: 250 * MILLISECOND }
    }

    pub(crate) async fn pause(&mut self, client: &Client) {
        self.pause_at_most(client, u64::MAX).await;
    }

    /// Pauses, but not beyond `deadline`.
    pub(crate) async fn pause_until(&mut self, client: &Client, deadline: Option<u64>) {
        let left = |at: u64| at.saturating_sub(client.transport.now_nanos());
        self.pause_at_most(client, deadline.map_or(u64::MAX, left)).await;
    }

    /// Pauses for `most` nanoseconds at most.
    pub(crate) async fn pause_at_most(&mut self, client: &Client, most: u64) {
        let nanos = self.next;
        self.next = (nanos * 2).min(self.max);
        client.transport.sleep(nanos.min(most)).await;
    }
}
