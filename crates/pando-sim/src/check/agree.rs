//! Does the system's answer agree with the model's?

use pando_model::{Op, Outcome, Stat, Tree, Value};
use pando_types::{Errno, FileKind, Ino};

use super::Event;
use super::excuse::Excuse;

/// How an answer compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The same.
    Same,
    /// The same but for this.
    Alike(Excuse),
    /// Not the same, but the system may say so, and then nothing changes.
    Excused(Excuse),
    /// Wrong.
    Different,
}

/// Compares what was `observed` with what the model says, whose tree was `before`.
pub fn compare(event: &Event, before: &Tree, expected: &Outcome, observed: &Outcome) -> Verdict {
    // By path: as if the directories had been named by number.
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
        // A walk that found something else than a directory, or that came to a directory that is
        // gone.
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

/// A planted fault of the judge: in this thread it takes any answer for another reason to refuse.
#[cfg(feature = "planted")]
pub fn forgive_all(is_planted: bool) {
    FORGIVES_ALL.set(is_planted);
}

/// What a lookup or a change of a directory tells of attributes is an event of its own.
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
        // By path: which directory it was.
        (Value::Stat(a), Value::Ino(ino)) if matches!(event.call.op, Op::SetAttr(..)) => {
            a.ino == *ino
        }
        (Value::Created(a, false), Value::Created(b, false)) => same_node(a, b),
        (Value::Stat(a), Value::Stat(b)) | (Value::Created(a, true), Value::Created(b, true)) => {
            return same_stat(event, a, b);
        }
        // It is told apart into what it saw of each name.
        (Value::Entries(a), Value::Entries(b)) => !event.exact || a == b,
        _ => expected == observed,
    };
    if is_same { Verdict::Same } else { Verdict::Different }
}

/// Which inode, no more.
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

/// A client finds a file by the name it once had. After a rename that handle dangles, unless the
/// client holds the file open.
fn may_dangle(event: &Event, before: &Tree) -> bool {
    file_of(&event.call.op).is_some_and(|ino| {
        before.node(ino).is_ok_and(|node| !node.is_dir() && node.is_moved)
            && !before.is_open(event.call.who, ino)
    })
}

/// A rename between two names of one file does nothing. The kernel sees that itself, before
/// permissions; shards check those first.
fn is_same_file(event: &Event, before: &Tree) -> bool {
    let Op::Rename { from, name, to, new_name, .. } = &event.call.op else { return false };
    let ino = |dir: Ino, name| Some(before.node(dir).ok()?.entries.get(name)?.0);
    ino(*from, name) == ino(*to, new_name)
}

/// The inode that an operation names by its number, rather than by a name.
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
