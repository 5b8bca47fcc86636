//! One operation of a client, with what is known of its outcome.

use pando_types::op::RequestId;
use pando_types::{Attr, Errno, Ino};

use super::lent::Lent;
use super::loose::Walked;
use super::sight::Sight;
use crate::model::{Call, Op, Outcome};

/// Position of an event in its history.
pub type EventIndex = usize;

/// What shards said of an operation, if its client got no answer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Fate {
    /// Nothing: it may have run, or may still run.
    #[default]
    Unknown,
    /// It was refused, and changes nothing.
    Refused(RequestId),
    /// It had run by this time, and has made this inode.
    Ran(u64, Option<Ino>),
}

/// An operation of a client, or a read that is judged beside it.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its lane. Operations of a lane do not overlap.
    pub lane: usize,
    /// The operation and its caller.
    pub call: Call,
    /// When it began, on the history's clock.
    pub invoked: u64,
    /// When it was answered, and the answer. `None`: whether it ran is unknown, or it may still
    /// run.
    pub returned: Option<(u64, Outcome)>,
    /// The error after which its outcome is unknown, if there was one.
    pub lost: Option<Errno>,
    /// Whether a changing request of it reached a shard, as far as that was watched.
    pub asked: bool,
    /// What shards said of it.
    pub fate: Fate,
    /// When a shard applied its changes, and the inode that it made, as far as that was watched.
    /// The changes may have been lost again. It is a hint: a search that begins with this order
    /// soon ends.
    pub applied: Option<(u64, Option<Ino>)>,
    /// Whether its client lost a session while it ran.
    pub lost_session: bool,
    /// What a listing says of one name, as a read of its own. `call` is the listing then.
    pub sight: Option<Sight>,
    /// Whether permissions changed while it ran. They are checked when its names are locked, and
    /// its changes happen later.
    pub checked_before: bool,
    /// Whether nothing else ran, so that listings and sizes of directories are exact.
    pub exact: bool,
    /// Of a call by path: what shards were asked without a trail.
    pub walked: Walked,
    /// Attributes in the answer, with times and versions.
    pub attr: Option<Attr>,
    /// Whether no shard judged its path in the end. `call` is then the operation by number.
    pub loose: bool,
    /// What was answered of it from lent parts.
    pub lent: Lent,
    /// Whether its client may go by a name that it gave or took in a change that was lost.
    pub believes: bool,
    /// Whether the search leaves it out.
    pub skipped: bool,
}

impl Event {
    /// Whether it has no answer and has changed nothing: it only reads, it was refused, or no
    /// request of it reached a shard. Writes and closes do not count as unasked, since their
    /// requests are not watched.
    #[must_use]
    pub fn was_nothing(&self) -> bool {
        self.skipped
            || self.returned.is_none()
                && (reads(self.call.op.inner())
                    || matches!(self.fate, Fate::Refused(_))
                    || (self.is_watched() && !self.asked))
    }

    fn is_watched(&self) -> bool {
        !matches!(self.call.op, Op::Write(..) | Op::Release(_) | Op::EndSession | Op::Linger(_))
    }

    /// Whether it has no answer, and no shard was seen applying it. Most such operations have
    /// changed nothing.
    pub(super) fn is_unseen(&self) -> bool {
        self.ended().is_none() && self.applied.is_none() && self.is_watched()
    }

    /// The time by which it had happened, if that is known.
    #[must_use]
    pub fn ended(&self) -> Option<u64> {
        match (&self.returned, self.fate) {
            (Some((at, _)), _) => Some(*at),
            (None, Fate::Ran(at, _)) => Some(at),
            _ => None,
        }
    }
}

/// Whether an operation changes nothing, whatever the tree is.
#[must_use]
pub const fn reads(op: &Op) -> bool {
    matches!(
        op,
        Op::Lookup(..)
            | Op::GetAttr(_)
            | Op::Access(..)
            | Op::Readlink(_)
            | Op::Read(..)
            | Op::GetXattr(..)
            | Op::ListXattr(_)
            | Op::ReadDir(_)
            | Op::Parent(_)
    )
}
