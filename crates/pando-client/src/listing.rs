//! Listing a directory, page by page, across its partitions.
//!
//! ```text
//!   position   0 1 2   3 ……………………………………… 2⁶² + 2
//!              begin   order + 3 of the entry returned last; go on at order + 1
//! ```
//!
//! An order stays what it is while partitions split, so a position means the same in every map
//! (DESIGN §3).

use pando_types::op::{FileAt, Op};
use pando_types::reply::{Body, Found, Listed};
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name, Order};

use crate::cache::At;
use crate::call::{stale, take};
use crate::client::Client;
use crate::join::join_all;
use crate::names::Entry;
use crate::nodes::{Spot, Stamp};

/// Positions below belong to the beginning, "." and "..".
const POSITION_BASE: u64 = 3;

/// Room for every position in a signed 64-bit offset.
const _: () = assert!(Order::END + POSITION_BASE < 1 << 63);

/// One entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Where a listing goes on after this entry.
    pub position: u64,
    /// Its name.
    pub name: Name,
    /// What it leads to.
    pub ino: Ino,
    /// What that is.
    pub kind: FileKind,
    /// Attributes, if they were asked for and it was still there.
    pub attr: Option<Attr>,
}

/// One shard's answer: what it has of the orders from where it was asked, in their order, up to
/// `next`.
pub(crate) struct Page {
    pub(crate) entries: Vec<Listed>,
    /// Where to go on; [`Order::END`] if there is nothing left.
    pub(crate) next: Order,
}

/// The first order after `position`.
pub(crate) const fn order_after(position: u64) -> Order {
    Order(position.saturating_sub(POSITION_BASE - 1))
}

impl Client {
    /// The next entries after `position`, at most `limit`; none at the end. A page ends where a
    /// partition does. `plus` asks for attributes too: each entry that has them counts as looked up
    /// once more. Who lists all of a directory takes a [`Listing`](crate::Listing), which fetches
    /// ahead.
    pub async fn readdir(
        &self,
        c: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
        plus: bool,
    ) -> Result<Vec<DirEntry>, Errno> {
        let dir = self.nodes.dir(ino)?;
        let asked = self.nodes.stamp();
        let (page, _) = self.page(c, dir.into(), position, limit).await?;
        if !plus {
            return Ok(page.into_iter().map(|listed| plain(&listed)).collect());
        }
        let entries = page.into_iter().map(|listed| self.looked_up(dir, listed, asked));
        Ok(join_all(entries).await)
    }

    /// Entries after `position`: of the first partition that has any; and whether that was the
    /// last.
    pub(crate) async fn page(
        &self,
        c: &Credentials,
        at: At<'_>,
        position: u64,
        limit: u32,
    ) -> Result<(Vec<Listed>, bool), Errno> {
        let mut from = order_after(position);
        while from.0 < Order::END {
            let Page { entries, next } = self.fetch(c, at, from, limit).await?;
            if !entries.is_empty() {
                return Ok((entries, next.0 >= Order::END));
            }
            from = next;
        }
        Ok((Vec::new(), true))
    }

    /// What one shard has of the orders from `from`, which is below [`Order::END`]. At most `limit`
    /// entries.
    pub(crate) async fn fetch(
        &self,
        c: &Credentials,
        At { dir, on }: At<'_>,
        from: Order,
        limit: u32,
    ) -> Result<Page, Errno> {
        let op = Op::ReadDir { dir, from, limit: limit.max(1) };
        let body = self.run_by(c, &op, on).await.map_err(stale)?;
        let (entries, next) = take!(body, Body::Page(page, next) => (page, next))?;
        let next = next.unwrap_or(Order(Order::END));
        if next > from { Ok(Page { entries, next }) } else { Err(Errno::EIO) }
    }

    /// The entry with its attributes; without, if they are not to be had: whoever then asks for
    /// them hears why.
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
