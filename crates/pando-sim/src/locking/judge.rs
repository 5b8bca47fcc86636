//! Do locks of programs keep what they promise? Judges at each moment what clients were told.
//!
//! ```text
//!   asks ─► granted ──── reads, writes ────► lets go
//!              │                                ▲
//!              └─ another is granted, session over: from here on no write of the first one is applied
//! ```
//!
//! A *tenure* is one lock of one owner, from its request to its end. A *part* is a piece of a file
//! that is changed only under a lock.
//!
//! 1. No two tenures that exclude each other hold at once, while the sessions of both live.
//! 2. Who reads a part under a lock finds the last value that was acknowledged, or one that was
//!    written since and not answered.
//! 3. What was read under a lock is the value from then on: an older write that was not answered is
//!    void.
//! 4. In mode `os` a loss of power takes locks and values of its last moments along. Nothing is
//!    judged by what was held before.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::{Ino, Lock, LockOwner};

use super::counts::Counts;
use super::watch::Watch;

/// Number of a tenure.
pub type TenureIndex = usize;

/// A piece of a file.
pub type PartOf = (Ino, u8);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Asked,
    Holds,
    /// It was granted, and its session was over when the answer came.
    Stale,
    /// Another one was granted since, as the session of this one was over.
    Superseded,
    Over,
}

#[derive(Clone, Debug)]
struct Tenure {
    who: u32,
    ino: Ino,
    lock: Lock,
    epoch: u64,
    /// Somebody relied on a lock from before a loss of power when it was asked for.
    is_doubtful: bool,
    phase: Phase,
    /// Values it has written without an answer.
    unsure: Vec<(u8, u64)>,
}

/// What a part may be.
#[derive(Clone, Debug)]
struct Part {
    /// `None`: anything.
    may_be: Option<BTreeSet<u64>>,
    /// Values that were read under a lock.
    seen: BTreeSet<u64>,
}

impl Default for Part {
    fn default() -> Self {
        Self { may_be: Some(BTreeSet::from([0])), seen: BTreeSet::new() }
    }
}

/// A write that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    tenure: TenureIndex,
    part: u8,
    value: u64,
    /// Another one was told before that it has the lock.
    is_late: bool,
}

/// All locks of a run, shared by the clients and the world.
#[derive(Default, Debug)]
pub struct Locks {
    /// What shards say.
    pub watch: Watch,
    /// How often what happened.
    pub counts: Counts,
    /// What is wrong, in words.
    pub broken: Vec<String>,
    tenures: Vec<Tenure>,
    parts: BTreeMap<PartOf, Part>,
    epoch: u64,
    values: u64,
}

impl Locks {
    /// An owner that never was.
    pub fn new_owner(&mut self) -> LockOwner {
        LockOwner(self.tenures.len() as u64 + 1)
    }

    /// A value that was never written.
    pub fn new_value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    /// All files that had locks.
    pub fn files(&self) -> BTreeSet<Ino> {
        self.tenures.iter().map(|tenure| tenure.ino).collect()
    }

    /// A client asks for a lock, on behalf of an owner of [`Locks::new_owner`].
    pub fn asks(&mut self, who: u32, ino: Ino, lock: Lock) -> TenureIndex {
        let (epoch, phase, unsure) = (self.epoch, Phase::Asked, Vec::new());
        let is_doubtful = self.has_old(ino);
        self.tenures.push(Tenure { who, ino, lock, epoch, is_doubtful, phase, unsure });
        self.tenures.len() - 1
    }

    /// It is told that it has it.
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
        }
    }

    /// It gives the lock back, or hears that it has lost it: from this moment on it does not rely
    /// on it.
    pub fn lets_go(&mut self, index: TenureIndex) {
        self.tenures[index].phase = Phase::Over;
    }

    /// It asks for a write.
    pub fn writes(&mut self, index: TenureIndex, part: u8, value: u64) -> Writing {
        let tenure = &self.tenures[index];
        let is_late = tenure.phase == Phase::Superseded && self.is_of_now(index);
        if let Some(may_be) = &mut self.parts.entry((tenure.ino, part)).or_default().may_be {
            may_be.insert(value);
        }
        Writing { tenure: index, part, value, is_late }
    }

    /// It hears what came of it.
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
        let is_over = matches!(self.tenures[index].phase, Phase::Superseded | Phase::Stale);
        let state = self.parts.entry(at).or_default();
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

    /// It reads a part.
    pub fn read(&mut self, index: TenureIndex, part: u8, value: u64) {
        let Tenure { ino, phase, .. } = self.tenures[index];
        if !self.is_of_now(index) {
            self.parts.entry((ino, part)).or_default().may_be = None;
            return;
        }
        // Whose session is over sees what others do.
        if phase != Phase::Holds || !self.lives(index) {
            return;
        }
        self.counts.reads += 1;
        let is_unsure = |tenure: &Tenure| tenure.unsure.contains(&(part, value));
        let state = self.parts.entry((ino, part)).or_default();
        if state.may_be.as_ref().is_some_and(|may_be| !may_be.contains(&value)) {
            let tenure = &self.tenures[index];
            let line =
                format!("{value} is read under {tenure:?}, part {part}; it may be {state:?}");
            self.broken.push(line);
        }
        let is_new = state.seen.insert(value);
        self.counts.unsure_found += u64::from(is_new && self.tenures.iter().any(is_unsure));
        let own = self.tenures[index].unsure.iter().filter(|(of, _)| *of == part);
        state.may_be = Some(own.map(|(_, own)| *own).chain([value]).collect());
    }

    /// In mode `os` a machine loses its power.
    pub fn lose_power(&mut self) {
        self.epoch += 1;
        self.watch.lose_power();
        self.parts.values_mut().for_each(|part| part.may_be = None);
    }

    /// What shards said that they must not.
    pub fn noticed(&mut self) {
        self.broken.append(&mut self.watch.broken);
        self.counts.taken_over = self.watch.taken_over;
        (self.counts.late, self.counts.ran) = (self.watch.late, self.watch.ran_count);
    }

    /// Whether the session of the lock lives, as far as is known.
    fn lives(&self, index: TenureIndex) -> bool {
        let Tenure { epoch, lock, .. } = self.tenures[index];
        epoch == self.epoch
            && self.watch.session_of(lock.owner).is_some_and(|s| self.watch.lives(s))
    }

    /// Whether nobody has relied on a lock of the file from before a loss of power since this one
    /// was asked for.
    fn is_of_now(&self, index: TenureIndex) -> bool {
        let Tenure { epoch, is_doubtful, ino, .. } = self.tenures[index];
        epoch == self.epoch && !is_doubtful && !self.has_old(ino)
    }

    /// Whether somebody relies on a lock of the file from before a loss of power. Who died does
    /// not, once its session is over.
    fn has_old(&self, ino: Ino) -> bool {
        let may_act = |tenure: &Tenure| {
            self.watch.session_of(tenure.lock.owner).is_none_or(|s| self.watch.lives(s))
        };
        let relies = |tenure: &&Tenure| tenure.ino == ino && tenure.phase != Phase::Over;
        let mut of_file = self.tenures.iter().filter(relies);
        of_file.any(|tenure| tenure.epoch != self.epoch && may_act(tenure))
    }

    /// Who died, at whatever point: it asks for nothing more.
    pub fn dies(&mut self, who: u32) {
        let asked = |tenure: &&mut Tenure| tenure.who == who && tenure.phase == Phase::Asked;
        self.tenures.iter_mut().filter(asked).for_each(|tenure| tenure.phase = Phase::Over);
    }
}
