//! Operations that a holder of a lent part runs by itself, and how they travel in elements
//! (docs/design/delegations.md, "Elements").

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::codec::{self, DecodeError};
use crate::op::{FileAt, FileRef, Op, Target};
use crate::{Credentials, DirRef, Name};

/// Version of the encoding.
const VERSION: u8 = 1;

/// What a program asked of a holder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// User and group of the caller, and how its permission is decided.
    pub credentials: Credentials,
    /// The operation.
    pub op: Op,
}

impl Asked {
    /// The bytes of a [`Change`](crate::lend::Change).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(VERSION, self)
    }

    /// Decodes the bytes of a [`Change`](crate::lend::Change).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(VERSION, bytes)
    }
}

/// The name of a file that is addressed by it; `None`: it is addressed by its number.
const fn name(file: &FileRef) -> Option<(DirRef, &Name)> {
    match &file.at {
        FileAt::Name(dir, name) => Some((*dir, name)),
        FileAt::Link => None,
    }
}

/// The names by which an operation finds all that it changes, if an element may have it: the second
/// is that of a rename's target. `None`: an element never has this operation. It changes more than
/// one part, or nothing.
#[must_use]
pub fn changes_at(op: &Op) -> Option<[Option<(DirRef, &Name)>; 2]> {
    let first = match op {
        Op::Create { dir, name, .. } | Op::Unlink(dir, name) => Some((*dir, name)),
        Op::Rename { from, name, to, new_name, flags } if !flags.exchange => {
            return Some([Some((*from, name)), Some((*to, new_name))]);
        }
        Op::OpenName { dir, name, truncate: true, .. } => Some((*dir, name)),
        Op::Open { file, truncate: true, .. }
        | Op::SetAttr(file, _)
        | Op::WriteData { file, .. }
        | Op::SetXattr { target: Target::File(file), .. }
        | Op::RemoveXattr(Target::File(file), _) => name(file),
        _ => None,
    };
    first.map(|first| [Some(first), None])
}

/// The names in parts that an operation is about, as far as it is about names alone: a rename has
/// two. `None`: it is about whole directories, or inodes.
#[must_use]
pub fn names_of(op: &Op) -> Option<[Option<(DirRef, &Name)>; 2]> {
    if let Some(names) = changes_at(op) {
        return names[0].is_some().then_some(names);
    }
    match op {
        Op::Mkdir(dir, at, _) | Op::Rmdir(dir, at) => Some([Some((*dir, at)), None]),
        Op::Rename { from, name: at, to, new_name, .. } => {
            Some([Some((*from, at)), Some((*to, new_name))])
        }
        Op::Link(file, dir, at) => Some([Some((*dir, at)), name(file)]),
        _ => reads_at(op).map(|at| [Some(at), None]),
    }
}

/// The directory of which an operation changes attributes, if an element may have it. The element
/// changes neither mode nor owner: these are in the parent, too.
#[must_use]
pub const fn changes_dir(op: &Op) -> Option<DirRef> {
    match op {
        Op::DirSetAttr(dir, _) => Some(*dir),
        _ => None,
    }
}

/// Whether an element may have this operation.
#[must_use]
pub fn is_change(op: &Op) -> bool {
    changes_at(op).is_some() || changes_dir(op).is_some()
}

/// The name by which an operation finds what it reads, if a holder answers it without an element.
/// What a file is open is not a change here: opens travel as totals. `None`: the operation is of
/// another kind, or addresses a file by its number.
#[must_use]
pub fn reads_at(op: &Op) -> Option<(DirRef, &Name)> {
    match op {
        Op::Lookup(dir, name) | Op::OpenName { dir, name, .. } => Some((*dir, name)),
        Op::GetAttr(file)
        | Op::Readlink(file)
        | Op::Access(file, _)
        | Op::Open { file, .. }
        | Op::Release(file)
        | Op::ReadData { file, .. }
        | Op::GetXattr(Target::File(file), _)
        | Op::ListXattr(Target::File(file)) => name(file),
        _ => None,
    }
}
