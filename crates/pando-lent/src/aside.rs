//! Changes that a holder had answered, and that its shard did not take.

use pando_types::lend::{Act, Element, Standing};
use pando_types::op::Op;
use pando_types::requests::asked::{Asked, changes_at};
use pando_types::{DirRef, Ino, Name, ShardIndex, TxnId};

/// Hears what is lost, and what is wrong with journals.
pub trait Hears: Send + Sync {
    /// These changes were answered and are lost.
    fn set_aside(&self, lost: Vec<SetAside>);
    /// Something is wrong with the journals, or with one of them.
    fn journal_fails(&self, what: String);
}

/// A change that is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetAside {
    /// The shard that did not take it.
    pub shard: ShardIndex,
    /// The grant under which it was answered, and its number among the changes there.
    pub element: (TxnId, u64),
    /// What it changed.
    pub what: &'static str,
    /// The directory and the name of the file.
    pub at: Option<(DirRef, Name)>,
    /// The file, if the change names it or has made it.
    pub ino: Option<Ino>,
    /// Whether the data of the file was to change, or the file was made.
    pub is_data: bool,
    /// When it was answered, nanoseconds since 1970.
    pub when: u64,
    /// Why it was not taken.
    pub why: Standing,
}

impl SetAside {
    /// What is lost with an element; `None`: nothing, as it is a return.
    #[must_use]
    pub fn of(shard: ShardIndex, element: &Element, why: Standing) -> Option<Self> {
        let Act::Change(change) = &element.act else { return None };
        let made = (change.ino.0 > 0).then_some(change.ino);
        let mut lost = Self {
            shard,
            element: (element.grant, element.number),
            what: "a change",
            at: None,
            ino: made,
            is_data: true,
            when: change.stamp,
            why,
        };
        let Ok(Asked { op, .. }) = Asked::decode(&change.asked) else { return Some(lost) };
        let first = changes_at(&op).and_then(|[first, _]| first);
        lost.at = first.map(|(dir, name)| (dir, name.clone()));
        (lost.what, lost.is_data) = named(&op);
        lost.ino = made.or_else(|| file_of(&op));
        Some(lost)
    }

    /// Why it was not taken, in words.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self.why {
            Standing::Fenced => "the shard had not heard of this mount for too long",
            Standing::Returned => "the directory had been given back",
            Standing::Refused | Standing::Stands | Standing::Awaited => {
                "the shard could not run it"
            }
            Standing::Unknown => "the shard does not know that it had lent the directory",
        }
    }
}

/// What an operation does, and whether to the data of a file.
const fn named(op: &Op) -> (&'static str, bool) {
    match op {
        Op::Create { .. } => ("the creation", true),
        Op::Unlink(..) => ("the removal", false),
        Op::Rename { .. } => ("the renaming", false),
        Op::SetAttr(..) => ("a change of the attributes", true),
        Op::DirSetAttr(..) => ("a change of the directory's attributes", false),
        Op::WriteData { .. } => ("a write", true),
        Op::Open { .. } | Op::OpenName { .. } => ("the truncation", true),
        Op::SetXattr { .. } | Op::RemoveXattr(..) => ("a change of the extended attributes", false),
        _ => ("a change", true),
    }
}

fn file_of(op: &Op) -> Option<Ino> {
    use pando_types::op::Target;
    match op {
        Op::SetAttr(file, _)
        | Op::WriteData { file, .. }
        | Op::Open { file, .. }
        | Op::SetXattr { target: Target::File(file), .. }
        | Op::RemoveXattr(Target::File(file), _) => Some(file.ino),
        Op::DirSetAttr(dir, _) => Some(dir.ino),
        _ => None,
    }
}
