//! Operations on names, by whichever shard owns them. They panic where no errno is the answer.

use pando_types::op::{FileAt, FileRef, NewNode, Op, RenameFlags};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{Attr, DirRef, Errno, FileKind, Name, Order, ShardIndex};

use super::Cluster;

/// Makes a directory with a wanted home, named `stem` and a number.
pub fn dir_at(
    c: &mut Cluster,
    parent: DirRef,
    stem: &str,
    is_wanted: impl Fn(ShardIndex) -> bool,
) -> (String, DirRef) {
    for n in 0..1000 {
        let name = format!("{stem}{n}");
        let dir = c.mkdir(parent, &name).unwrap();
        if is_wanted(c.home(dir)) {
            return (name, dir);
        }
        c.rmdir(parent, &name).unwrap();
    }
    panic!("no directory where one is wanted");
}

impl Cluster {
    pub fn name(&self, name: &str) -> Name {
        Name::new(name.as_bytes()).unwrap()
    }

    pub fn create_op(&self, dir: DirRef, name: &str) -> Op {
        let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
        Op::Create { dir, name: self.name(name), node, exclusive: true, open: false }
    }

    pub fn create_open_op(&self, dir: DirRef, name: &str) -> Op {
        let mut op = self.create_op(dir, name);
        if let Op::Create { open, .. } = &mut op {
            *open = true;
        }
        op
    }

    /// Runs an operation, by whichever shard owns what it is about.
    pub fn body(&mut self, op: &Op) -> Result<Body, Errno> {
        self.on_owner(op).map_err(|refusal| match refusal {
            Refusal::Errno(errno) => errno,
            other => panic!("refused: {other:?}"),
        })
    }

    /// Runs an operation of which only the success matters.
    pub fn done(&mut self, op: &Op) -> Result<(), Errno> {
        self.body(op).map(drop)
    }

    pub fn create(&mut self, dir: DirRef, name: &str) -> Result<Attr, Errno> {
        self.body(&self.create_op(dir, name)).map(|body| match body {
            Body::Created(attr, true, _) => attr,
            other => panic!("unexpected {other:?}"),
        })
    }

    pub fn mkdir(&mut self, dir: DirRef, name: &str) -> Result<DirRef, Errno> {
        self.body(&Op::Mkdir(dir, self.name(name), 0o755)).map(|body| match body {
            Body::Made(dir, _) => dir,
            other => panic!("unexpected {other:?}"),
        })
    }

    pub fn lookup(&mut self, dir: DirRef, name: &str) -> Result<Found, Errno> {
        self.body(&Op::Lookup(dir, self.name(name))).map(|body| match body {
            Body::Found(found) => found,
            other => panic!("unexpected {other:?}"),
        })
    }

    pub fn unlink(&mut self, dir: DirRef, name: &str) -> Result<(), Errno> {
        self.done(&Op::Unlink(dir, self.name(name)))
    }

    pub fn rmdir(&mut self, dir: DirRef, name: &str) -> Result<(), Errno> {
        self.done(&Op::Rmdir(dir, self.name(name)))
    }

    pub fn rename(&mut self, from: DirRef, name: &str, to: DirRef, new: &str) -> Result<(), Errno> {
        let (name, new_name) = (self.name(name), self.name(new));
        self.done(&Op::Rename { from, name, to, new_name, flags: RenameFlags::default() })
    }

    pub fn link(
        &mut self,
        (old_dir, old, attr): (DirRef, &str, Attr),
        dir: DirRef,
        name: &str,
    ) -> Result<(), Errno> {
        let file = FileRef { ino: attr.ino, at: FileAt::Name(old_dir, self.name(old)) };
        self.done(&Op::Link(file, dir, self.name(name)))
    }

    /// Names in a directory, over all shards.
    pub fn list(&mut self, dir: DirRef) -> Vec<String> {
        let mut names = Vec::new();
        let mut from = Some(Order(0));
        while let Some(order) = from {
            match self.on_owner(&Op::ReadDir { dir, from: order, limit: 7 }) {
                Ok(Body::Page(page, next)) => {
                    names.extend(page.into_iter().map(|e| e.name.to_string()));
                    from = next;
                }
                other => panic!("{other:?}"),
            }
        }
        names
    }
}
