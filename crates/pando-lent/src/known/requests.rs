//! Changing requests that travel: a copy of each may run until it is answered.

use std::collections::{HashMap, HashSet};

use pando_types::op::{FileAt, FileRef, Head, Op, Request, RequestId, Target};
use pando_types::{Credentials, DirId, SessionId};

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

/// A request of this side itself.
pub(crate) fn own(op: Op) -> Box<Request> {
    Box::new(Request { head: Head::default(), credentials: Credentials::ROOT, op, trail: None })
}

/// Changing requests that were sent and are not answered.
#[derive(Default, Debug)]
pub(crate) struct Requests {
    open: HashMap<(SessionId, u16), (u64, Vec<DirId>)>,
    by_dir: HashMap<DirId, u32>,
    /// Those of which a copy has left this process.
    left: HashSet<RequestId>,
}

impl Requests {
    /// Notes that a request is sent. A request slot has one at a time.
    pub(crate) fn sent(&mut self, request: &Request) {
        let id = request.head.id;
        if id.sequence == 0 {
            return;
        }
        let has_left = self.has_left(id);
        self.end((id.session, id.slot));
        if has_left {
            self.left.insert(id);
        }
        let dirs = dirs_of(&request.op);
        for dir in &dirs {
            *self.by_dir.entry(*dir).or_default() += 1;
        }
        self.open.insert((id.session, id.slot), (id.sequence, dirs));
    }

    /// Notes that a request is answered.
    pub(crate) fn answered(&mut self, id: RequestId) {
        if self.was_sent(id) {
            self.end((id.session, id.slot));
        }
    }

    fn end(&mut self, slot: (SessionId, u16)) {
        let Some((sequence, dirs)) = self.open.remove(&slot) else { return };
        self.left.remove(&RequestId { session: slot.0, slot: slot.1, sequence });
        for dir in dirs {
            if let Some(count) = self.by_dir.get_mut(&dir) {
                *count -= 1;
                if *count == 0 {
                    self.by_dir.remove(&dir);
                }
            }
        }
    }

    /// Notes that a request leaves, of which it was noted that it is sent.
    pub(crate) fn leaves(&mut self, id: RequestId) {
        if self.was_sent(id) {
            self.left.insert(id);
        }
    }

    /// Whether a copy of this request has left, and is not answered.
    pub(crate) fn has_left(&self, id: RequestId) -> bool {
        self.left.contains(&id)
    }

    /// Whether a copy of this request was sent, and is not answered.
    pub(crate) fn was_sent(&self, id: RequestId) -> bool {
        id.sequence > 0
            && self
                .open
                .get(&(id.session, id.slot))
                .is_some_and(|(sequence, _)| *sequence == id.sequence)
    }

    /// Whether a request that is not answered concerns this directory.
    pub(crate) fn concern(&self, dir: DirId) -> bool {
        self.by_dir.contains_key(&dir)
    }
}
