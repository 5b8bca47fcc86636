//! Which directories a session changes so often that it is worth borrowing them.

use std::collections::{HashMap, VecDeque};

use pando_types::op::Op;
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
/// A loan was worth it that has answered so many requests.
const WORTH: u32 = 64;

/// Changes by directory.
#[derive(Default, Debug)]
pub(crate) struct Eager {
    counts: HashMap<DirId, Watched>,
    ready: VecDeque<DirRef>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Watched {
    changes: u32,
    not_before: u64,
    /// The last pause.
    pause: u64,
    is_split: bool,
}

/// The directory of which an operation changes entries or their inodes, if it is one.
pub(crate) fn changed_dir(op: &Op) -> Option<DirRef> {
    let [first, second] = changes_at(op)?;
    let dir = first?.0;
    second.is_none_or(|(other, _)| other == dir).then_some(dir)
}

impl Eager {
    /// Notes a change that a shard has answered.
    pub(crate) fn note(&mut self, dir: DirRef, body: &Body, (now, after): (u64, u32)) {
        self.make_room(dir.id);
        let watched = self.counts.entry(dir.id).or_default();
        if let Body::Created(_, _, radix) = body {
            watched.is_split = *radix > Radix(0);
        }
        watched.changes += 1;
        if watched.changes >= after && !watched.is_split && watched.not_before <= now {
            watched.changes = 0;
            self.ready.push_back(dir);
        }
    }

    /// Notes that a directory was not lent, and whether because it has several partitions.
    pub(crate) fn refused(&mut self, dir: DirId, is_split: bool, now: u64) {
        if let Some(watched) = self.counts.get_mut(&dir) {
            watched.is_split |= is_split;
            watched.not_before = now.saturating_add(REFUSED_FOR);
        }
    }

    /// Notes that a directory was given back because this session needed more than that, after it
    /// has answered so many requests.
    pub(crate) fn given_up(&mut self, dir: DirId, answered: u32, now: u64) {
        self.make_room(dir);
        let watched = self.counts.entry(dir).or_default();
        watched.pause = match answered < WORTH {
            true => (watched.pause * 2).clamp(REFUSED_FOR, REFUSED_MAX),
            false => 0,
        };
        watched.not_before = now.saturating_add(watched.pause);
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
