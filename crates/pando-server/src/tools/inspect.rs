//! What `pando info` shows: where a directory's partitions are, and where a file's inode and data
//! are.
//!
//! It asks shards as a client does, from the home on, and follows redirects. It caches nothing and
//! has no session, since it only reads.

use std::cell::RefCell;
use std::collections::BTreeSet;

use pando_placement::{ClusterMap, DirMap, Secrets};
use pando_types::attr::Attr;
use pando_types::op::{FileAt, FileRef, Head, Op, Request};
use pando_types::reply::{Access, Body, Found, Refusal, Reply, SplitHistory};
use pando_types::{
    Credentials, DirRef, Errno, FileKind, Ino, Name, PartitionIndex, Radix, ShardIndex,
};
use serde::{Deserialize, Serialize};

/// Most requests for one name. A walk needs more only if partitions split meanwhile.
const STEPS_MAX: u32 = 200;

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Info {
    /// A directory.
    Directory(DirectoryInfo),
    /// A file of any other kind.
    File(FileInfo),
}

/// A directory, with its partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DirectoryInfo {
    /// Directory id, hexadecimal.
    pub id: String,
    /// Inode number.
    pub ino: u64,
    /// Index of the home shard.
    pub home: u16,
    /// Number of names in the directory.
    pub entries: u64,
    /// Partitions, by index.
    pub partitions: Vec<PartitionInfo>,
}

/// A partition of a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PartitionInfo {
    /// Index of the partition.
    pub index: u32,
    /// Number of hash bits that select the partition.
    pub depth: u8,
    /// Index of its shard.
    pub shard: u16,
    /// Number of names in the partition.
    pub entries: u64,
    /// State of the partition, in words.
    pub state: String,
}

/// A file that is no directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileInfo {
    /// Kind of the file, in words.
    pub kind: String,
    /// Inode number.
    pub ino: u64,
    /// Size, bytes.
    pub size: u64,
    /// Number of names.
    pub links: u32,
    /// Index of the shard that has the inode.
    pub shard: u16,
    /// Where the inode is: `entry`, in the entry of the file's one name, or `link shard`.
    pub inode_at: String,
    /// Index of the directory's partition that has the name.
    pub partition: u32,
    /// Index of the shard of that partition.
    pub name_shard: u16,
    /// Where the data is. `None`: the file is not a regular one.
    pub data: Option<DataInfo>,
}

/// A file's data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataInfo {
    /// Whether the data is in the shard of the inode.
    pub inline: bool,
    /// The parts of the file that are in objects.
    pub slices: Vec<SliceInfo>,
}

/// A part of a file that is in one object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SliceInfo {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub len: u64,
    /// Id of the object, hexadecimal.
    pub object: String,
    /// Offset in the object, bytes.
    pub object_offset: u64,
}

/// Sends a request to a shard, and waits for the reply. `None`: there is no reply.
pub type Caller<'a> = &'a dyn Fn(ShardIndex, Request) -> Option<Box<Reply>>;

/// Asks shards of any process.
pub struct Inspector<'a> {
    call: Caller<'a>,
    /// Owners of hash slots, as far as they are known.
    map: RefCell<ClusterMap>,
    secrets: Secrets,
}

struct Named {
    found: Found,
    partition: PartitionIndex,
    shard: ShardIndex,
}

impl<'a> Inspector<'a> {
    /// An inspector of the volume with this map and these secrets.
    pub fn new(call: Caller<'a>, map: ClusterMap, secrets: Secrets) -> Self {
        Self { call, map: RefCell::new(map), secrets }
    }

    /// What the path of `names`, from the root, leads to. Symbolic links are not followed.
    pub fn info(&self, names: &[Name]) -> Result<Info, Errno> {
        let Some((last, before)) = names.split_last() else {
            return self.directory(DirRef::ROOT);
        };
        let mut dir = DirRef::ROOT;
        for name in before {
            let Found::Dir(Access { dir: next, .. }) = self.lookup(dir, name)?.found else {
                return Err(Errno::ENOTDIR);
            };
            dir = next;
        }
        let named = self.lookup(dir, last)?;
        match named.found {
            Found::Dir(access) => self.directory(access.dir),
            Found::File(ref attr) => {
                let at = FileAt::Name(dir, last.clone());
                self.file(&named, attr.clone(), at, named.shard)
            }
            Found::Linked(ino, _) => {
                let link = |map: &ClusterMap| map.link(ino);
                let op = Op::GetAttr(FileRef { ino, at: FileAt::Link });
                let (shard, body) = self.ask_owner(&link, &op)?;
                let Body::Attr(attr) = body else { return Err(Errno::EIO) };
                self.file(&named, attr, FileAt::Link, shard)
            }
        }
    }

    fn directory(&self, dir: DirRef) -> Result<Info, Errno> {
        let (_, body) = self.ask_owner(&|map| map.home(dir.id), &Op::DirGetAttr(dir))?;
        let Body::Dir(attr) = body else { return Err(Errno::EIO) };
        let home = self.map.borrow().home(dir.id);
        let mut known = DirMap::new();
        known.learn(&attr.history);
        let mut partitions = Vec::new();
        let mut to_ask: BTreeSet<_> = (0..self.map.borrow().shards).map(ShardIndex).collect();
        let mut asked = BTreeSet::new();
        while let Some(shard) = to_ask.pop_first() {
            asked.insert(shard);
            let Body::Inspected(found) = self.ask(shard, Op::InspectDir(shard, dir.id))? else {
                return Err(Errno::EIO);
            };
            let leaves = found.iter().map(|it| (it.delta.partition, it.delta.radix)).collect();
            known.merge(&SplitHistory { of: None, spread: attr.history.spread, leaves });
            // The depths of these partitions tell of all that split off. Some may be on shards that
            // only these partitions know of.
            let implied = known.leaves().into_iter().map(|(index, _)| known.shard(home, index));
            to_ask.extend(implied.filter(|shard| !asked.contains(shard)));
            partitions.extend(found.into_iter().map(|inspected| PartitionInfo {
                index: inspected.delta.partition.0,
                depth: inspected.delta.radix.0,
                shard: inspected.delta.shard.0,
                entries: inspected.delta.entries,
                state: inspected.state,
            }));
        }
        partitions.sort();
        Ok(Info::Directory(DirectoryInfo {
            id: dir.id.to_string(),
            ino: dir.ino.0,
            home: home.0,
            entries: partitions.iter().map(|partition| partition.entries).sum(),
            partitions,
        }))
    }

    fn file(
        &self,
        named: &Named,
        attr: Attr,
        at: FileAt,
        shard: ShardIndex,
    ) -> Result<Info, Errno> {
        let inode_at = if at == FileAt::Link { "link shard" } else { "entry" };
        let data = if attr.kind == FileKind::Regular {
            Some(self.data(attr.ino, at, shard, attr.size)?)
        } else {
            None
        };
        Ok(Info::File(FileInfo {
            kind: kind_name(attr.kind).to_owned(),
            ino: attr.ino.0,
            size: attr.size,
            links: attr.nlink,
            shard: shard.0,
            inode_at: inode_at.to_owned(),
            partition: named.partition.0,
            name_shard: named.shard.0,
            data,
        }))
    }

    fn data(&self, ino: Ino, at: FileAt, shard: ShardIndex, len: u64) -> Result<DataInfo, Errno> {
        let op = Op::ReadData { file: FileRef { ino, at }, offset: 0, len: len.max(1) };
        let Body::Layout(layout) = self.ask(shard, op)? else { return Err(Errno::EIO) };
        let slices = layout.slices.iter().map(|slice| SliceInfo {
            offset: slice.offset,
            len: slice.range.len,
            object: format!("{:032x}", slice.range.object.0),
            object_offset: slice.range.offset,
        });
        Ok(DataInfo { inline: layout.is_inline, slices: slices.collect() })
    }

    /// Looks a name up as a client without any map does (GIGA+ §3.3).
    fn lookup(&self, dir: DirRef, name: &Name) -> Result<Named, Errno> {
        let order = self.secrets.order(name.as_bytes());
        let mut map = DirMap::new();
        for _ in 0..STEPS_MAX {
            let home = self.map.borrow().home(dir.id);
            let (partition, _): (PartitionIndex, Radix) = map.locate(order);
            let shard = map.shard(home, partition);
            match self.call(shard, Op::Lookup(dir, name.clone()))? {
                Ok(Body::Found(found)) => return Ok(Named { found, partition, shard }),
                Ok(_) => return Err(Errno::EIO),
                Err(Refusal::Redirect(history)) => {
                    map.learn(&history);
                }
                Err(Refusal::HashSlot(news)) => drop(self.map.borrow_mut().learn(news)),
                Err(Refusal::AskHome) => {
                    let op = Op::DirGetAttr(dir);
                    if let Ok(Body::Dir(attr)) = self.call(home, op)? {
                        map = DirMap::new();
                        map.learn(&attr.history);
                    }
                }
                Err(Refusal::Errno(errno)) => return Err(errno),
                Err(_) => return Err(Errno::EIO),
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Asks the owner of a hash slot, as far as it is known, and follows redirects to the true
    /// owner.
    fn ask_owner(
        &self,
        owner: &dyn Fn(&ClusterMap) -> ShardIndex,
        op: &Op,
    ) -> Result<(ShardIndex, Body), Errno> {
        for _ in 0..STEPS_MAX {
            let shard = owner(&self.map.borrow());
            match self.call(shard, op.clone())? {
                Ok(body) => return Ok((shard, body)),
                Err(Refusal::HashSlot(news)) => drop(self.map.borrow_mut().learn(news)),
                Err(Refusal::Errno(errno)) => return Err(errno),
                Err(_) => return Err(Errno::EAGAIN),
            }
        }
        Err(Errno::EAGAIN)
    }

    fn ask(&self, shard: ShardIndex, op: Op) -> Result<Body, Errno> {
        self.call(shard, op)?.map_err(|refusal| match refusal {
            Refusal::Errno(errno) => errno,
            _ => Errno::EAGAIN,
        })
    }

    fn call(&self, shard: ShardIndex, op: Op) -> Result<Result<Body, Refusal>, Errno> {
        let request =
            Request { head: Head::default(), credentials: Credentials::ROOT, op, trail: None };
        let reply = (self.call)(shard, request).ok_or(Errno::EIO)?;
        Ok(reply.result)
    }
}

const fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "named pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}
