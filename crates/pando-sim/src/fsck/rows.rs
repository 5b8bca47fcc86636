//! All rows of all shards, by what they are.

use std::collections::{BTreeMap, BTreeSet};

use pando_core::keys::{self, Kind};
use pando_core::record::{Content, Entry, Header, LinkedName, Record};
use pando_placement::{ClusterMap, Secrets};
use pando_types::peer::{EntryValue, Inode};
use pando_types::{DirId, Ino, Name, Order, ShardIndex};

use crate::host::Host;

/// An entry, where it was found.
pub struct FoundEntry {
    /// On which shard.
    pub shard: ShardIndex,
    /// In which directory.
    pub dir: DirId,
    /// At which order.
    pub order: Order,
    /// Its name.
    pub name: Name,
    /// What it leads to.
    pub value: EntryValue,
}

/// Everything.
pub struct Volume {
    /// Who owns which slot.
    pub map: ClusterMap,
    /// Hash secrets.
    pub secrets: Secrets,
    /// Directories.
    pub contents: Vec<(ShardIndex, DirId, Content)>,
    /// Partitions, by directory.
    pub headers: BTreeMap<DirId, Vec<(ShardIndex, u64, Header)>>,
    /// Names.
    pub entries: Vec<FoundEntry>,
    /// Link inodes.
    pub links: BTreeMap<Ino, (ShardIndex, Inode)>,
    /// Names that link inodes know of.
    pub link_names: BTreeSet<(Ino, DirId, Name)>,
    /// Orders with cold rows: shard, directory, kind, order.
    pub cold: BTreeSet<(ShardIndex, DirId, u8, u64)>,
    /// Link inodes with cold rows.
    pub link_cold: BTreeSet<(Ino, u8)>,
    /// Rows of the shards' own tables.
    pub own: Vec<(ShardIndex, Vec<u8>, Vec<u8>)>,
}

impl Volume {
    /// Reads it all; rows that cannot be read are faults.
    pub fn read(hosts: &[Host], faults: &mut Vec<String>) -> Self {
        let config = &hosts[0].config;
        let mut volume = Self {
            map: config.map.clone(),
            secrets: config.secrets.clone(),
            contents: Vec::new(),
            headers: BTreeMap::new(),
            entries: Vec::new(),
            links: BTreeMap::new(),
            link_names: BTreeSet::new(),
            cold: BTreeSet::new(),
            link_cold: BTreeSet::new(),
            own: Vec::new(),
        };
        for host in hosts {
            let shard = host.config.shard;
            let Some(process) = &host.process else {
                faults.push(format!("shard {shard} does not run"));
                continue;
            };
            for row in process.db.scan(&[], None) {
                let read = row
                    .map_err(|error| error.to_string())
                    .and_then(|(key, value)| volume.add(shard, &key, &value));
                if let Err(fault) = read {
                    faults.push(format!("shard {shard}: {fault}"));
                }
            }
        }
        volume
    }

    fn add(&mut self, shard: ShardIndex, key: &[u8], value: &[u8]) -> Result<(), String> {
        let broken = |halt| format!("{}: {halt:?}", key.escape_ascii());
        match key.first() {
            Some(b'd') => self.add_dir(shard, key, value).map_err(broken),
            Some(b'l') => self.add_link(shard, key, value).map_err(broken),
            Some(b's') => {
                self.own.push((shard, key.to_vec(), value.to_vec()));
                Ok(())
            }
            _ => Err(format!("unknown key {}", key.escape_ascii())),
        }
    }

    fn add_dir(
        &mut self,
        shard: ShardIndex,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), pando_core::Halt> {
        let broken = || pando_core::Halt::Broken("a key".into());
        let dir = keys::dir_of(key).ok_or_else(broken)?;
        let order = keys::order_of(key).ok_or_else(broken)?;
        let kind = keys::kind_of(key).ok_or_else(broken)?;
        if kind == Kind::Content as u8 {
            self.contents.push((shard, dir, Content::decode(value)?));
        } else if kind == Kind::Header as u8 {
            let header = Header::decode(value)?;
            self.headers.entry(dir).or_default().push((shard, order.0, header));
        } else if kind == Kind::Entry as u8 {
            if let Some((name, value)) = Entry::decode(value)?.is {
                self.entries.push(FoundEntry { shard, dir, order, name, value });
            }
        } else {
            self.cold.insert((shard, dir, kind, order.0));
        }
        Ok(())
    }

    fn add_link(
        &mut self,
        shard: ShardIndex,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), pando_core::Halt> {
        let broken = || pando_core::Halt::Broken("a key".into());
        let ino: [u8; 8] =
            key.get(3..11).and_then(|bytes| bytes.try_into().ok()).ok_or_else(broken)?;
        let ino = Ino(u64::from_be_bytes(ino));
        let kind = *key.get(11).ok_or_else(broken)?;
        if kind == Kind::Entry as u8 {
            self.links.insert(ino, (shard, Inode::decode(value)?));
        } else if kind == Kind::LinkName as u8 {
            let name = LinkedName::decode(value)?;
            self.link_names.insert((ino, name.dir.id, name.name));
        } else {
            self.link_cold.insert((ino, kind));
        }
        Ok(())
    }
}
