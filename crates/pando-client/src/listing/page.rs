//! Listing a directory, page by page, across its partitions.
//!
//! ```text
//!   position   0 1 2   3 ……………………………………… 2⁶² + 2
//!              begin   order + 3 of the entry returned last; go on at order + 1
//! ```
//!
//! Splits of partitions do not change an entry's order. So a position has one meaning in every
//! partition map (docs/design/listing.md).

use futures_util::future::join;
use futures_util::stream::{self, StreamExt};
use pando_types::op::{FileAt, Op};
use pando_types::reply::{Body, Found, Listed};
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name, Order};

use crate::cache::on_path::At;
use crate::calls::names::Entry;
use crate::client::Client;
use crate::nodes::table::{Spot, Stamp};
use crate::request::outcome::{stale, take};

/// Lookups of a page's entries at one time. A connection has room for a limited number of requests,
/// and other callers need some of it.
pub(crate) const LOOKUPS_MAX: usize = 128;

/// Lower positions belong to the beginning, "." and "..".
const POSITION_BASE: u64 = 3;

/// Every position fits into a signed 64-bit offset.
const _: () = assert!(Order::END + POSITION_BASE < 1 << 63);

/// An entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The position at which a listing goes on after this entry.
    pub position: u64,
    /// The entry's name.
    pub name: Name,
    /// The inode that the entry leads to.
    pub ino: Ino,
    /// The kind of that inode.
    pub kind: FileKind,
    /// Attributes, if the caller asked for them and the inode was still there.
    pub attr: Option<Attr>,
}

/// A shard's answer: the entries it has of the orders from the one asked for up to `next`, in
/// order.
pub(crate) struct Page {
    pub(crate) entries: Vec<Listed>,
    /// The order at which to go on; [`Order::END`] if nothing is left.
    pub(crate) next: Order,
}

/// The first order after `position`.
pub(crate) const fn order_after(position: u64) -> Order {
    Order(position.saturating_sub(POSITION_BASE - 1))
}

impl Client {
    /// The next entries after `position`, at most `limit`; none at the end. A page ends where a
    /// partition ends. To list all of a directory use [`Listing`](crate::Listing), which fetches
    /// ahead.
    pub async fn readdir(
        &self,
        credentials: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Result<Vec<DirEntry>, Errno> {
        let dir = self.nodes.dir(ino)?;
        let (page, _) = self.page(credentials, dir.into(), position, limit).await?;
        Ok(page.into_iter().map(|listed| plain(&listed)).collect())
    }

    /// As [`readdir`](Client::readdir), with attributes. Each entry that has them counts as one
    /// more lookup.
    pub async fn readdir_plus(
        &self,
        credentials: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Result<Vec<DirEntry>, Errno> {
        let dir = self.nodes.dir(ino)?;
        let asked = self.nodes.stamp();
        let is_begin = order_after(position) == Order(0);
        let page = self.page(credentials, dir.into(), position, limit);
        let ahead = async {
            if is_begin {
                self.list_ahead(credentials, ino, (position, limit)).await;
            }
        };
        let (page, ()) = join(page, ahead).await;
        let (page, _) = page?;
        if is_begin {
            self.walks.note(&page);
        }
        let entries = page.into_iter().map(|listed| self.looked_up(dir, listed, asked));
        Ok(stream::iter(entries).buffered(LOOKUPS_MAX).collect().await)
    }

    /// Entries after `position`, of the first partition that has any. Returns also whether that is
    /// the last partition.
    pub(crate) async fn page(
        &self,
        credentials: &Credentials,
        at: At<'_>,
        position: u64,
        limit: u32,
    ) -> Result<(Vec<Listed>, bool), Errno> {
        let mut from = order_after(position);
        while from.0 < Order::END {
            let Page { entries, next } = self.fetch(credentials, at, from, limit).await?;
            if !entries.is_empty() {
                return Ok((entries, next.0 >= Order::END));
            }
            from = next;
        }
        Ok((Vec::new(), true))
    }

    /// The entries that one shard has of the orders from `from`, which is below [`Order::END`]. At
    /// most `limit` entries.
    pub(crate) async fn fetch(
        &self,
        credentials: &Credentials,
        At { dir, on }: At<'_>,
        from: Order,
        limit: u32,
    ) -> Result<Page, Errno> {
        let op = Op::ReadDir { dir, from, limit: limit.max(1) };
        let body = self.run_by(credentials, &op, on).await.map_err(stale)?;
        let (entries, next) = take!(body, Body::Page(page, next) => (page, next))?;
        let next = next.unwrap_or(Order(Order::END));
        if next > from { Ok(Page { entries, next }) } else { Err(Errno::EIO) }
    }

    /// The entry with its attributes, or without if they cannot be had. A later request for them
    /// tells the reason.
    async fn looked_up(&self, dir: DirRef, listed: Listed, asked: Stamp) -> DirEntry {
        let mut entry = plain(&listed);
        let found = match listed.found {
            Found::File(attr) => {
                Ok(Entry { attr, spot: Spot::File(FileAt::Name(dir, listed.name)) })
            }
            pointer => self.behind(pointer).await,
        };
        if let Ok(Entry { attr, spot }) = found {
            self.nodes.look_up(attr.ino, spot, asked);
            entry.attr = Some(attr);
        }
        entry
    }
}

/// The entry without attributes.
pub(crate) fn plain(listed: &Listed) -> DirEntry {
    let (ino, kind) = match &listed.found {
        Found::File(attr) => (attr.ino, attr.kind),
        Found::Linked(ino, kind) => (*ino, *kind),
        Found::Dir(access) => (access.dir.ino, FileKind::Directory),
    };
    let position = listed.order.0 + POSITION_BASE;
    DirEntry { position, name: listed.name.clone(), ino, kind, attr: None }
}
