//! Reads single records at the places where they must be, for the closer look.

use pando_core::keys::{self, Kind};
use pando_core::record::{Content, Entry, Header, LinkedName, Open, Record, SessionsHeard};
use pando_types::peer::Inode;
use pando_types::{DirId, Ino, Order, SessionId, ShardIndex};

use crate::findings::evidence::Evidence;
use crate::findings::finding::At;
use crate::rows::cursor;
use crate::rows::key::link_prefix;
use crate::rows::source::Rows;
use crate::rows::volume::Volume;

/// A path with more components than this is not shown.
const DEPTH_MAX: usize = 4096;

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Seen<R> {
    pub shard: ShardIndex,
    pub key: Vec<u8>,
    pub bytes: Vec<u8>,
    pub record: R,
}

impl<R> Seen<R> {
    pub fn evidence(&self) -> Evidence {
        Evidence::row(self.shard, &self.key, Some(&self.bytes))
    }
}

/// All records of a range as they were read.
pub struct Records<R> {
    pub records: Vec<Seen<R>>,
    pub evidence: Evidence,
    /// Whether all records could be decoded.
    pub is_readable: bool,
}

/// Range of the keys of all entries of one order.
pub fn group_range(dir: DirId, order: u64) -> (Vec<u8>, Vec<u8>) {
    let base = Order(order).base().0;
    keys::dir_range(dir, Kind::Entry, &(base..base + (1 << Order::ORDINAL_BITS)))
}

/// Reads records of a volume.
pub struct Probe<'a> {
    pub rows: &'a mut dyn Rows,
    pub volume: &'a Volume,
}

impl Probe<'_> {
    /// Reads the record of a key. `None` also if it cannot be decoded.
    pub fn record<R: Record>(
        &mut self,
        shard: ShardIndex,
        key: Vec<u8>,
    ) -> Result<Option<Seen<R>>, String> {
        let Some(bytes) = cursor::get(self.rows, shard, &key)? else { return Ok(None) };
        Ok(R::decode(&bytes).ok().map(|record| Seen { shard, key, bytes, record }))
    }

    /// Reads the records of a range.
    fn records<R: Record>(
        &mut self,
        shard: ShardIndex,
        (from, to): (Vec<u8>, Vec<u8>),
    ) -> Result<Records<R>, String> {
        let rows = cursor::range(self.rows, shard, &from, &to)?;
        let all = rows.iter().map(|(key, value)| (key.as_slice(), value.as_slice()));
        let evidence = Evidence::range(shard, (from, to), all);
        let count = rows.len();
        let decoded = rows.into_iter().filter_map(|(key, bytes)| {
            let record = R::decode(&bytes).ok()?;
            Some(Seen { shard, key, bytes, record })
        });
        let records: Vec<_> = decoded.collect();
        Ok(Records { is_readable: records.len() == count, records, evidence })
    }

    /// Reads a directory's content at its home.
    pub fn content(&mut self, dir: DirId) -> Result<Option<Seen<Content>>, String> {
        self.record(self.volume.map.home(dir), keys::dir(dir, Kind::Content, 0))
    }

    /// Shard and key of a directory's content.
    pub fn content_key(&self, dir: DirId) -> (ShardIndex, Vec<u8>) {
        (self.volume.map.home(dir), keys::dir(dir, Kind::Content, 0))
    }

    /// Reads the headers of a directory's partitions on a shard.
    pub fn headers(&mut self, shard: ShardIndex, dir: DirId) -> Result<Records<Header>, String> {
        self.records(shard, keys::dir_range(dir, Kind::Header, &(0..u64::MAX)))
    }

    /// Finds the partition that holds `order`, on any shard.
    pub fn owner(&mut self, dir: DirId, order: u64) -> Result<Option<Seen<Header>>, String> {
        let home = self.volume.map.home(dir);
        let at_home = self.headers(home, dir)?.records;
        let is_split = at_home.iter().any(|header| header.record.spread.is_some());
        let holds = |header: &Seen<Header>| header.record.range().contains(&order);
        if let Some(found) = at_home.into_iter().find(holds) {
            return Ok(Some(found));
        }
        if !is_split {
            return Ok(None);
        }
        for shard in self.volume.shards().filter(|shard| *shard != home) {
            if let Some(found) = self.headers(shard, dir)?.records.into_iter().find(holds) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Reads all records of one order, vacant ones included.
    pub fn names(
        &mut self,
        shard: ShardIndex,
        dir: DirId,
        order: u64,
    ) -> Result<Records<Entry>, String> {
        self.records(shard, group_range(dir, order))
    }

    /// Reads a link inode.
    pub fn link(&mut self, ino: Ino) -> Result<Option<Seen<Inode>>, String> {
        self.record(self.volume.map.link(ino), keys::link(ino, Kind::Entry))
    }

    /// Reads the names that a link inode records.
    pub fn link_names(&mut self, ino: Ino) -> Result<Records<LinkedName>, String> {
        let from = keys::link(ino, Kind::LinkName);
        let to = keys::after(&from);
        self.records(self.volume.map.link(ino), (from, to))
    }

    /// Reads the opens of an inode on a shard.
    pub fn opens(&mut self, shard: ShardIndex, ino: Ino) -> Result<Records<Open>, String> {
        let from = keys::open(ino, SessionId(0))[..10].to_vec();
        let to = keys::after(&from);
        self.records(shard, (from, to))
    }

    /// Whether a shard has a record of a session, or may not have heard of it yet.
    pub fn knows_session(&mut self, shard: ShardIndex, id: SessionId) -> Result<bool, String> {
        // The order matters: the session may begin between the two readings.
        let heard = cursor::get(self.rows, shard, &keys::table(keys::Table::Session))?;
        if cursor::get(self.rows, shard, &keys::session(id))?.is_some() {
            return Ok(true);
        }
        let last = heard
            .and_then(|value| SessionsHeard::decode(&value).ok())
            .map_or(0, |heard| heard.last);
        Ok(shard != ShardIndex(0) && id.number() > last)
    }

    /// Reads all rows of a link inode.
    pub fn link_rows(&mut self, ino: Ino) -> Result<Vec<crate::rows::source::Row>, String> {
        let prefix = link_prefix(ino);
        cursor::range(self.rows, self.volume.map.link(ino), &prefix, &keys::after(&prefix))
    }

    /// A path for people. `None` if the parents do not lead to the root.
    pub fn path(&mut self, at: &At) -> Result<Option<String>, String> {
        let (mut dir, mut parts) = match at {
            At::Dir(dir) => (*dir, Vec::new()),
            At::Name(dir, name) => (*dir, vec![name.escape_ascii().to_string()]),
        };
        while dir != DirId::ROOT {
            let Some(content) = self.content(dir)? else { return Ok(None) };
            let Some(name) = content.record.name else { return Ok(None) };
            parts.push(name.to_string());
            dir = content.record.parent.id;
            if parts.len() > DEPTH_MAX {
                return Ok(None);
            }
        }
        parts.reverse();
        Ok(Some(format!("/{}", parts.join("/"))))
    }
}
