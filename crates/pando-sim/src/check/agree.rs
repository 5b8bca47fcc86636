//! Compares an answer of the system with the model's answer.

use pando_types::{Errno, FileKind, Ino};

use super::Event;
use super::excuse::Excuse;
use super::file_names::has_objects;
use crate::model::{Op, Outcome, Stat, Tree, Value};

/// How two answers compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The answers are equal.
    Same,
    /// The answers are equal except for what the excuse names.
    Alike(Excuse),
    /// The answers differ, but the system may answer so. Then the operation changes nothing.
    Excused(Excuse),
    /// The answers differ, and nothing excuses it.
    Different,
}

/// Compares what was `observed` with the answer that the model expects. `before` is the model's
/// tree before the operation.
pub fn compare(event: &Event, before: &Tree, expected: &Outcome, observed: &Outcome) -> Verdict {
    // A call by path is compared as if it had named its directories by number.
    if let Op::ByPath { .. } = &event.call.op
        && let Ok(call) = before.resolved(&event.call)
    {
        return compare(&Event { call, ..event.clone() }, before, expected, observed);
    }
    match (expected, observed) {
        (Ok(expected), Ok(observed)) => same_value(event, expected, observed),
        (Err(expected), Err(observed)) if expected == observed => Verdict::Same,
        (Err(_), Err(observed)) if before.objections(&event.call).contains(observed) => {
            Verdict::Excused(Excuse::OtherObjection)
        }
        (Ok(_), Err(Errno::EACCES | Errno::EPERM)) if is_same_file(event, before) => {
            Verdict::Excused(Excuse::SameFile)
        }
        (_, Err(Errno::ESTALE)) if may_dangle(event, before) => {
            Verdict::Excused(Excuse::FormerName)
        }
        (_, Err(Errno::ESTALE)) if event.believes => Verdict::Excused(Excuse::Believed),
        // A walk along a path that no shard judged ended at something that is not a directory, or
        // at a directory that is gone.
        (Ok(Value::Stat(stat)), Err(Errno::ENOTDIR))
            if event.loose && stat.kind != FileKind::Directory =>
        {
            Verdict::Excused(Excuse::LooseFile)
        }
        (Err(Errno::ESTALE), Err(Errno::ENOENT)) if event.loose => {
            Verdict::Excused(Excuse::LooseDirectory)
        }
        #[cfg(feature = "planted")]
        _ if FORGIVES_ALL.get() => Verdict::Excused(Excuse::OtherObjection),
        _ => Verdict::Different,
    }
}

#[cfg(feature = "planted")]
std::thread_local! {
    static FORGIVES_ALL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Plants a fault in the judge of this thread: any difference is excused.
#[cfg(feature = "planted")]
pub fn forgive_all(is_planted: bool) {
    FORGIVES_ALL.set(is_planted);
}

/// Compares two values. Attributes told by a lookup, or by a change of a directory, are an event of
/// their own and not compared here.
fn same_value(event: &Event, expected: &Value, observed: &Value) -> Verdict {
    let is_same = match (expected, observed) {
        (Value::Stat(a), Value::Stat(b)) if matches!(event.call.op, Op::Lookup(..)) => {
            same_node(a, b)
        }
        (Value::Stat(a), Value::Stat(b))
            if matches!(event.call.op, Op::SetAttr(..)) && a.kind == FileKind::Directory =>
        {
            a.ino == b.ino
        }
        // By path, the answer tells only which directory it was.
        (Value::Stat(a), Value::Ino(ino)) if matches!(event.call.op, Op::SetAttr(..)) => {
            a.ino == *ino
        }
        (Value::Created(a, false), Value::Created(b, false)) => same_node(a, b),
        (Value::Stat(a), Value::Stat(b)) if links_objects(&event.call.op) => {
            *a == Stat { size: a.size, ..*b }
        }
        (Value::Stat(a), Value::Stat(b)) | (Value::Created(a, true), Value::Created(b, true)) => {
            return same_stat(event, a, b);
        }
        // A listing is judged name by name, as sights.
        (Value::Entries(a), Value::Entries(b)) => !event.exact || a == b,
        _ => expected == observed,
    };
    if is_same { Verdict::Same } else { Verdict::Different }
}

/// Whether an operation links a file with objects. The model does not know the contents of such a
/// file.
fn links_objects(op: &Op) -> bool {
    matches!(op, Op::Link(_, _, name) if has_objects(name))
}

/// Whether two answers tell of one inode, whatever its attributes are.
fn same_node(a: &Stat, b: &Stat) -> bool {
    (a.ino, a.kind) == (b.ino, b.kind)
}

fn same_stat(event: &Event, a: &Stat, b: &Stat) -> Verdict {
    let uncounted = |stat: &Stat| Stat { nlink: 0, size: 0, ..*stat };
    match a.kind == FileKind::Directory && !event.exact {
        _ if a == b => Verdict::Same,
        true if uncounted(a) == uncounted(b) => Verdict::Alike(Excuse::DirectoryCounts),
        _ => Verdict::Different,
    }
}

/// Whether `ESTALE` is excused. A client finds a file by the name that it once had. After a rename
/// that handle dangles, unless the client holds the file open.
fn may_dangle(event: &Event, before: &Tree) -> bool {
    file_of(&event.call.op).is_some_and(|ino| {
        before.node(ino).is_ok_and(|node| !node.is_dir() && node.is_moved)
            && !before.is_open(event.call.who, ino)
    })
}

/// Whether a rename is between two names of one file, which does nothing. The kernel sees that
/// before it looks at permissions. Shards look at permissions first.
fn is_same_file(event: &Event, before: &Tree) -> bool {
    let Op::Rename { from, name, to, new_name, .. } = &event.call.op else { return false };
    let ino = |dir: Ino, name| Some(before.node(dir).ok()?.entries.get(name)?.0);
    ino(*from, name) == ino(*to, new_name)
}

/// The inode that an operation names by number, not by a name.
pub fn file_of(op: &Op) -> Option<Ino> {
    match op {
        Op::GetAttr(ino)
        | Op::SetAttr(ino, _)
        | Op::Access(ino, _)
        | Op::Readlink(ino)
        | Op::Open { ino, .. }
        | Op::Read(ino, ..)
        | Op::Write(ino, ..)
        | Op::GetXattr(ino, _)
        | Op::ListXattr(ino)
        | Op::SetXattr(ino, ..)
        | Op::RemoveXattr(ino, _)
        | Op::Link(ino, ..) => Some(*ino),
        _ => None,
    }
}
