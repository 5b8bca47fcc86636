//! Which directories a session changes so often that it is worth borrowing them.

use std::collections::{HashMap, VecDeque};

use pando_types::op::{Op, Request};
use pando_types::reply::Body;
use pando_types::requests::asked::changes_at;
use pando_types::{DirId, DirRef, Radix};

use crate::settings::MILLIS;

/// Directories that are watched at most.
const MOST: usize = 1_024;
/// Time after a refusal in which a directory is not asked for, nanoseconds. It doubles with each
/// loan that was not worth it.
const REFUSED_FOR: u64 = 500 * MILLIS;
/// Longest such time, nanoseconds.
const REFUSED_MAX: u64 = 32 * REFUSED_FOR;
/// Shortest such time after a loan that was not worth it, nanoseconds.
const REFUSED_MIN: u64 = 20 * MILLIS;
/// A loan was worth it that has answered so many requests.
const WORTH: u32 = 16;

/// Changes by directory.
#[derive(Default, Debug)]
pub(crate) struct Eager {
    counts: HashMap<DirId, Changes>,
    ready: VecDeque<DirRef>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Changes {
    count: u32,
    not_before: u64,
    /// The last pause.
    pause: u64,
    is_split: bool,
}

/// What a request tells about a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched {
    /// It changes entries, or inodes in these.
    Changed(DirRef),
    /// It looks at the directory's attributes.
    Looked(DirRef),
}

impl Watched {
    /// What a request tells about the one directory that it concerns.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        if let Op::DirGetAttr(dir) = &request.op {
            return Some(Self::Looked(*dir));
        }
        let [first, second] = changes_at(&request.op).filter(|_| request.head.id.sequence > 0)?;
        let dir = first?.0;
        second.is_none_or(|(other, _)| other == dir).then_some(Self::Changed(dir))
    }
}

impl Changes {
    /// Whether the directory is to be borrowed now. Then it begins anew.
    fn is_due(&mut self, now: u64, after: u32) -> bool {
        let is_due = self.count >= after && !self.is_split && self.not_before <= now;
        if is_due {
            self.count = 0;
        }
        is_due
    }
}

impl Eager {
    /// Notes what a shard has answered.
    pub(crate) fn note(&mut self, watched: Watched, body: &Body, (now, after): (u64, u32)) {
        let dir = match watched {
            Watched::Changed(dir) => self.note_change(dir, body),
            Watched::Looked(dir) => self.note_attr(dir, body),
        };
        let Some(changes) = self.counts.get_mut(&dir.id) else { return };
        if changes.is_due(now, after) {
            self.ready.push_back(dir);
        }
    }

    fn note_change(&mut self, dir: DirRef, body: &Body) -> DirRef {
        self.make_room(dir.id);
        let changes = self.counts.entry(dir.id).or_default();
        changes.count += 1;
        if let Body::Created(_, _, radix) = body {
            changes.is_split = *radix > Radix(0);
        }
        dir
    }

    fn note_attr(&mut self, dir: DirRef, body: &Body) -> DirRef {
        if let (Body::Dir(attr), Some(changes)) = (body, self.counts.get_mut(&dir.id))
            && let [first] = &attr.deltas[..]
        {
            changes.is_split = first.radix > Radix(0);
        }
        dir
    }

    /// Notes that a directory was not lent, and whether because it has several partitions.
    pub(crate) fn refused(&mut self, dir: DirId, is_split: bool, now: u64) {
        if let Some(changes) = self.counts.get_mut(&dir) {
            changes.is_split |= is_split;
            changes.not_before = now.saturating_add(REFUSED_FOR);
        }
    }

    /// Notes that a directory was given back because this session needed more than that, after it
    /// has answered so many requests.
    pub(crate) fn given_up(&mut self, dir: DirId, answered: u32, now: u64) {
        self.make_room(dir);
        let changes = self.counts.entry(dir).or_default();
        changes.pause = match answered < WORTH {
            true => (changes.pause * 2).clamp(REFUSED_MIN, REFUSED_MAX),
            false => 0,
        };
        changes.not_before = now.saturating_add(changes.pause);
    }

    fn make_room(&mut self, dir: DirId) {
        if self.counts.len() >= MOST && !self.counts.contains_key(&dir) {
            self.counts.clear();
        }
    }

    /// Whether a directory is to be borrowed.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes a directory that is to be borrowed.
    pub(crate) fn take_ready(&mut self) -> Option<DirRef> {
        self.ready.pop_front()
    }
}
