//! What an operation is about: names in directories, or whole directories.

use std::ops::Range;

use pando_types::op::{FileAt, FileRef, Op, Target};
use pando_types::requests::asked::names_of;
use pando_types::{DirId, Name, Order};

/// A name in a directory that an operation is about, or all of the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    /// The directory.
    pub(crate) dir: DirId,
    /// The order of the name.
    order: Option<Order>,
}

impl Reach {
    /// What an operation is about.
    pub(crate) fn of(op: &Op, order: impl Fn(&Name) -> Order) -> Vec<Self> {
        match names_of(op) {
            Some(names) => {
                let named = names.into_iter().flatten();
                named.map(|(dir, name)| Self { dir: dir.id, order: Some(order(name)) }).collect()
            }
            None => dirs_of(op).into_iter().map(|dir| Self { dir, order: None }).collect(),
        }
    }

    /// Whether it is about something in a range of orders of a directory.
    pub(crate) fn is_in(&self, dir: DirId, orders: &Range<u64>) -> bool {
        self.dir == dir && self.order.is_none_or(|order| orders.contains(&order.0))
    }
}

/// The directories in which an operation looks at names or changes something, twice if need be.
pub(crate) fn dirs_of(op: &Op) -> Vec<DirId> {
    let of_file = |file: &FileRef| match &file.at {
        FileAt::Name(dir, _) => vec![dir.id],
        FileAt::Link => Vec::new(),
    };
    match op {
        Op::Lookup(dir, _)
        | Op::Create { dir, .. }
        | Op::Mkdir(dir, ..)
        | Op::Unlink(dir, _)
        | Op::Rmdir(dir, _)
        | Op::OpenName { dir, .. }
        | Op::DirGetAttr(dir)
        | Op::PartitionStat(dir, _)
        | Op::DirSetAttr(dir, _)
        | Op::DirAccess(dir, _)
        | Op::ReadDir { dir, .. }
        | Op::Parent(dir) => vec![dir.id],
        Op::Rename { from, to, .. } => vec![from.id, to.id],
        Op::Link(file, dir, _) => [of_file(file), vec![dir.id]].concat(),
        Op::GetAttr(file)
        | Op::SetAttr(file, _)
        | Op::Readlink(file)
        | Op::Open { file, .. }
        | Op::Release(file)
        | Op::Access(file, _)
        | Op::ReadData { file, .. }
        | Op::WriteData { file, .. }
        | Op::SyncFile(file) => of_file(file),
        Op::ReleaseAll(_, files) => files.iter().flat_map(of_file).collect(),
        Op::GetXattr(target, _)
        | Op::ListXattr(target)
        | Op::SetXattr { target, .. }
        | Op::RemoveXattr(target, _)
        | Op::LockOf(target, _) => match target {
            Target::File(file) => of_file(file),
            Target::Dir(dir) => vec![dir.id],
        },
        _ => Vec::new(),
    }
}
