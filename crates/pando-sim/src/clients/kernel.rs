//! What a kernel before a client remembers (docs/design/read-grants.md, "What kernels remember").

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use pando_types::{Attr, Errno, Ino, Name};

use crate::model::Op;

/// What a kernel remembers.
#[derive(Default)]
pub struct Kernel {
    /// Number of the last request that its mount has read.
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) facts: Mutex<Facts>,
}

/// What it remembers.
#[derive(Default)]
pub(crate) struct Facts {
    /// What names lead to, each until a moment.
    pub(crate) names: BTreeMap<(Ino, Name), (Option<Ino>, u64)>,
    pub(crate) attrs: BTreeMap<Ino, (Attr, u64)>,
    pub(crate) changes: Changes,
}

/// Changes of this kernel's programs, at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Of anything.
    pub(crate) all: u64,
    /// Of attributes of files, otherwise than by their names.
    pub(crate) of_files: u64,
    pub(crate) under_way: u64,
    pub(crate) files_under_way: u64,
}

impl Facts {
    /// The answer to a question, if it is known.
    pub(crate) fn known(&self, op: &Op, now: u64) -> Option<Result<Attr, Errno>> {
        let attr = |ino: &Ino| self.attrs.get(ino).filter(|(_, until)| now < *until);
        match op {
            Op::GetAttr(ino) => Some(Ok(attr(ino)?.0.clone())),
            Op::Lookup(dir, name) => {
                let at = (*dir, name.clone());
                match self.names.get(&at).filter(|(_, until)| now < *until)?.0 {
                    Some(ino) => Some(Ok(attr(&ino)?.0.clone())),
                    None => Some(Err(Errno::ENOENT)),
                }
            }
            _ => None,
        }
    }
}
