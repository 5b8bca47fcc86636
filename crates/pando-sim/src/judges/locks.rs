//! Judges, from what clients are told, whether locks of programs keep their promises.
//!
//! ```text
//!   asks ─► granted ──── reads, writes ────► lets go
//!              │                                ▲
//!              └─ another is granted, session over, and looks: from then on no write of the first one is applied
//! ```
//!
//! A *tenure* is one lock of one owner, from its request to its end. A *part* is a piece of a file
//! that is changed only under a lock.
//!
//! 1. No two tenures that exclude each other are held at once while both sessions live.
//! 2. A holder that reads a part finds the last acknowledged value, or a value that was written
//!    since without an answer.
//! 3. A value that was read under a lock is the part's value from then on. Older writes without an
//!    answer are void.
//! 4. Let a session be over, and another have its lock. Once the next holder has read or written a
//!    part, no later write of the first one to that part is acknowledged. Until then, a shard that
//!    is cut off from shard 0 may take such a write (docs/design/sessions.md).
//! 5. In mode `os`, a loss of power may take the last locks and values. After it, nothing is judged
//!    by what was held before.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::{Ino, Lock, LockOwner};

use crate::counts::locks::Counts;
use crate::judges::lock_watch::Watch;

/// Number of a tenure.
pub type TenureIndex = usize;

/// A part of a file: the file's ino, and the part's number.
pub type PartOf = (Ino, u8);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Asked,
    Holds,
    /// The lock was granted, but its session was over when the answer came.
    Stale,
    /// Another tenure was granted since, because the session of this one was over.
    Superseded,
    Over,
}

#[derive(Clone, Debug)]
struct Tenure {
    who: u32,
    ino: Ino,
    lock: Lock,
    epoch: u64,
    /// Whether a client relied on a lock from before a loss of power when this one was asked for.
    is_doubtful: bool,
    phase: Phase,
    /// Parts and values that it has written without an answer.
    unsure: Vec<(u8, u64)>,
    /// Number of looks at all parts when another tenure was granted.
    superseded_at: u64,
}

/// The possible values of a part.
#[derive(Clone, Debug)]
struct Part {
    /// The possible values; `None`: any value.
    may_be: Option<BTreeSet<u64>>,
    /// Values that were read under a lock.
    seen: BTreeSet<u64>,
    /// Number of the last look at it by a holder, which read or wrote it.
    last_look: u64,
}

impl Default for Part {
    fn default() -> Self {
        Self { may_be: Some(BTreeSet::from([0])), seen: BTreeSet::new(), last_look: 0 }
    }
}

/// A write that a client has begun.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    tenure: TenureIndex,
    part: u8,
    value: u64,
    /// Whether the holder of another tenure had looked at the part before the write began.
    is_late: bool,
}

/// All locks of a run. The clients and the world share them.
#[derive(Default, Debug)]
pub struct Locks {
    /// What the shards say about locks.
    pub watch: Watch,
    /// Counts of what happened.
    pub counts: Counts,
    /// Faults that were found, in words.
    pub broken: Vec<String>,
    tenures: Vec<Tenure>,
    parts: BTreeMap<PartOf, Part>,
    epoch: u64,
    values: u64,
    /// Number of looks at parts by holders.
    looks: u64,
}

impl Locks {
    /// A new lock owner.
    pub fn new_owner(&mut self) -> LockOwner {
        LockOwner(self.tenures.len() as u64 + 1)
    }

    /// A value that was never written.
    pub fn new_value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    /// A client asks for a lock, for an owner from [`Locks::new_owner`].
    pub fn asks(&mut self, who: u32, ino: Ino, lock: Lock) -> TenureIndex {
        let (epoch, phase, unsure) = (self.epoch, Phase::Asked, Vec::new());
        let is_doubtful = self.has_old(ino);
        let superseded_at = 0;
        self.tenures.push(Tenure {
            who,
            ino,
            lock,
            epoch,
            is_doubtful,
            phase,
            unsure,
            superseded_at,
        });
        self.tenures.len() - 1
    }

    /// The client hears that the lock is granted.
    pub fn granted(&mut self, index: TenureIndex) {
        let mine = self.tenures[index].clone();
        self.counts.granted += 1;
        self.counts.shared += u64::from(mine.lock.kind == pando_types::LockKind::Shared);
        if !self.lives(index) {
            self.tenures[index].phase = Phase::Stale;
            return;
        }
        self.tenures[index].phase = Phase::Holds;
        for other in 0..self.tenures.len() {
            let theirs = &self.tenures[other];
            let meets =
                other != index && theirs.ino == mine.ino && theirs.lock.excludes(&mine.lock);
            if !meets || !matches!(theirs.phase, Phase::Holds | Phase::Stale) {
                continue;
            }
            if self.lives(other) {
                let both = format!("{:?} and {mine:?}", self.tenures[other]);
                self.broken.push(format!("two hold a lock at once: {both}"));
            }
            self.counts.unaware += 1;
            self.tenures[other].phase = Phase::Superseded;
            self.tenures[other].superseded_at = self.looks;
        }
    }

    /// The client releases the lock, or hears that it has lost it. It no longer relies on the lock.
    pub fn lets_go(&mut self, index: TenureIndex) {
        self.tenures[index].phase = Phase::Over;
    }

    /// The client begins a write.
    pub fn writes(&mut self, index: TenureIndex, part: u8, value: u64) -> Writing {
        let is_of_now = self.is_of_now(index);
        let tenure = &self.tenures[index];
        let of = self.parts.entry((tenure.ino, part)).or_default();
        let was_looked_at = of.last_look > tenure.superseded_at;
        let is_late = tenure.phase == Phase::Superseded && is_of_now && was_looked_at;
        if let Some(may_be) = &mut of.may_be {
            may_be.insert(value);
        }
        Writing { tenure: index, part, value, is_late }
    }

    /// The client hears the outcome of a write.
    pub fn written(&mut self, writing: Writing, is_done: bool) {
        let Writing { tenure: index, part, value, is_late } = writing;
        if !is_done {
            self.counts.unsure += 1;
            self.tenures[index].unsure.push((part, value));
            return;
        }
        self.counts.writes += 1;
        let at = (self.tenures[index].ino, part);
        let is_of_now = self.is_of_now(index);
        let phase = self.tenures[index].phase;
        let is_over = matches!(phase, Phase::Superseded | Phase::Stale);
        self.looks += 1;
        let state = self.parts.entry(at).or_default();
        if phase == Phase::Holds {
            state.last_look = self.looks;
        }
        if !is_of_now {
            state.may_be = None;
            return;
        }
        if is_late {
            let tenure = &self.tenures[index];
            let line = format!(
                "{value} was written under a lock that another had: {tenure:?}, part {part}"
            );
            self.broken.push(line);
        }
        let is_open = state.may_be.as_ref().is_none_or(|may_be| may_be.contains(&value));
        if !is_open && !state.seen.contains(&value) {
            let line =
                format!("{value} was acknowledged, and the next holder has not found it: {at:?}");
            self.broken.push(line);
        }
        if !is_over || (is_open && !state.seen.contains(&value)) {
            state.may_be = Some(BTreeSet::from([value]));
        }
    }

    /// The client has read a part.
    pub fn read(&mut self, index: TenureIndex, part: u8, value: u64) {
        let Tenure { ino, phase, .. } = self.tenures[index];
        if !self.is_of_now(index) {
            self.parts.entry((ino, part)).or_default().may_be = None;
            return;
        }
        // After its session is over, a client may see the changes of others.
        if phase != Phase::Holds || !self.lives(index) {
            return;
        }
        self.counts.reads += 1;
        self.looks += 1;
        let is_unsure = |tenure: &Tenure| tenure.unsure.contains(&(part, value));
        let state = self.parts.entry((ino, part)).or_default();
        if state.may_be.as_ref().is_some_and(|may_be| !may_be.contains(&value)) {
            let tenure = &self.tenures[index];
            let line =
                format!("{value} is read under {tenure:?}, part {part}; it may be {state:?}");
            self.broken.push(line);
        }
        state.last_look = self.looks;
        let is_new = state.seen.insert(value);
        self.counts.unsure_found += u64::from(is_new && self.tenures.iter().any(is_unsure));
        let own = self.tenures[index].unsure.iter().filter(|(of, _)| *of == part);
        state.may_be = Some(own.map(|(_, own)| *own).chain([value]).collect());
    }

    /// A machine loses its power in mode `os`.
    pub fn lose_power(&mut self) {
        self.epoch += 1;
        self.watch.lose_power();
        self.parts.values_mut().for_each(|part| part.may_be = None);
    }

    /// Takes over the faults and counts of the watch.
    pub fn noticed(&mut self) {
        self.broken.append(&mut self.watch.broken);
        self.counts.taken_over = self.watch.taken_over;
        (self.counts.late, self.counts.ran) = (self.watch.late, self.watch.ran_count);
    }

    /// Whether the session of the lock is alive, as far as shard 0 has told.
    fn lives(&self, index: TenureIndex) -> bool {
        let Tenure { epoch, lock, .. } = self.tenures[index];
        epoch == self.epoch
            && self.watch.session_of(lock.owner).is_some_and(|s| self.watch.lives(s))
    }

    /// Whether, since this lock was asked for, no client has relied on a lock of the file from
    /// before a loss of power.
    fn is_of_now(&self, index: TenureIndex) -> bool {
        let Tenure { epoch, is_doubtful, ino, .. } = self.tenures[index];
        epoch == self.epoch && !is_doubtful && !self.has_old(ino)
    }

    /// Whether a client relies on a lock of the file from before a loss of power. A dead client
    /// does not, once its session is over.
    fn has_old(&self, ino: Ino) -> bool {
        let may_act = |tenure: &Tenure| {
            self.watch.session_of(tenure.lock.owner).is_none_or(|s| self.watch.lives(s))
        };
        let relies = |tenure: &&Tenure| tenure.ino == ino && tenure.phase != Phase::Over;
        let mut of_file = self.tenures.iter().filter(relies);
        of_file.any(|tenure| tenure.epoch != self.epoch && may_act(tenure))
    }

    /// A client has died at any point: it asks for no more locks.
    pub fn dies(&mut self, who: u32) {
        let asked = |tenure: &&mut Tenure| tenure.who == who && tenure.phase == Phase::Asked;
        self.tenures.iter_mut().filter(asked).for_each(|tenure| tenure.phase = Phase::Over);
    }
}
