//! Listing directories ahead for programs that walk a tree. What their files contain comes along if
//! the program reads files. Which come next:
//! [`Walks`](crate::nodes::walks::Walks).

use futures_util::future::join;
use futures_util::stream::{self, StreamExt};
use pando_types::op::Op;
use pando_types::reply::Found;
use pando_types::{Credentials, Ino, Order};

use crate::client::Client;
use crate::listing::page::{LOOKUPS_MAX, order_after};
use crate::nodes::walks::AHEAD_MAX;

/// Bytes of contents that are asked for ahead, of each directory.
const BYTES_AHEAD: u32 = 64 << 10;

/// Pages of a listing that are learned at most.
const LEARNED_MAX: usize = 16;

impl Client {
    /// Has the transport learn what the names of a directory lead to, if it remembers. For a kernel
    /// that keeps the listing, and asks for none. Failures are those of later calls.
    pub async fn learn_names(&self, credentials: &Credentials, dir: Ino, limit: u32) {
        let Ok(at) = self.nodes.dir(dir) else { return };
        if !self.transport.is_remembering() {
            return;
        }
        let pages = async {
            let mut from = order_after(0);
            for _ in 0..LEARNED_MAX {
                match self.fetch(credentials, at.into(), from, limit).await {
                    Ok(page) if page.next.0 < Order::END => from = page.next,
                    _ => return,
                }
            }
        };
        join(pages, self.list_ahead(credentials, dir, (0, limit))).await;
    }

    /// Lists directories ahead if `dir`, of which a listing begins, is on a walk. Their failures
    /// are those of the calls that need them.
    pub(crate) async fn list_ahead(
        &self,
        credentials: &Credentials,
        dir: Ino,
        (position, limit): (u64, u32),
    ) {
        if !self.transport.is_remembering() {
            return;
        }
        let next = self.walks.ahead_of(dir);
        if next.is_empty() {
            return;
        }
        let lists = next.into_iter().map(|dir| async move {
            let from = order_after(position);
            let Ok(page) = self.fetch(credentials, dir.into(), from, limit).await else { return };
            if let Some(reader) = self.transport.reader() {
                let op = Op::ReadFiles { dir, from, bytes: BYTES_AHEAD };
                let _ = self.run_plain(&reader, op).await;
            }
            let found = page.entries.into_iter().map(|listed| listed.found);
            let dirs = found.filter(|found| matches!(found, Found::Dir(_)));
            let attrs = dirs.map(|found| async move { drop(self.behind(found).await) });
            stream::iter(attrs).buffer_unordered(LOOKUPS_MAX).collect::<()>().await;
        });
        stream::iter(lists).buffer_unordered(AHEAD_MAX).collect::<()>().await;
    }
}
