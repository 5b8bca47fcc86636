//! Who was told `ESTALE`, and walks his path again within the same system call.
//!
//! Linux asks for every component then (`LOOKUP_REVAL`), from where the path begins: the root, the working directory, or a
//! descriptor. What such a walk comes to is served by what it is, not by the way that is remembered to it, since each
//! component was there at some moment of the call; and who begins with a directory that he holds need not be able to come to
//! it by any path. So a call is refused once at most.
//!
//! ```text
//!   begun ──LOOKUP in the root──► from the root: only what the last answer led to
//!     └────LOOKUP of a path's first name, where it begins──► held: what it has come to so far
//!   either ──the operation itself, or a request that does not fit──► over
//! ```
//!
//! A name that the kernel had is asked for twice before the walk begins anew: a refusal of the first makes it look the name up.
//!
//! A thread is in one system call at a time; which one, [`Call`] tells, where it can. Where it cannot, less is served: a request
//! that might belong to the next call is judged by its way, as any.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::{Ino, Name};

use super::Step;
use super::call::{Call, Start};
use super::table::Place;

/// Threads that walk again at a time. Beyond, all begin anew: they are told `ESTALE` once more, at worst.
const WALKS_MAX: usize = 4096;
const ROOT: u64 = Ino::ROOT.0;

/// See the module.
#[derive(Default)]
pub(super) struct Walks {
    of_thread: Mutex<HashMap<u32, Walk>>,
    /// How many, so that nobody needs to look where there are none.
    count: AtomicUsize,
}

pub(super) struct Walk {
    call: Option<Call>,
    refused: Step,
    /// Names on the way that was refused.
    edges: Vec<Place>,
    /// Where its paths begin.
    starts: Vec<Start>,
    from: From,
    /// The last name that was asked for.
    last: Option<Place>,
    /// Where that led to.
    to: Option<u64>,
}

/// Where a walk began.
enum From {
    /// It has not.
    Nowhere,
    /// The root; what it has come to since, and what it has asked for.
    Root { seen: HashSet<u64>, asked: HashSet<Place> },
    /// A directory that the caller holds; what it has come to since.
    Held(HashSet<u64>),
}

impl Walks {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Walk>> {
        self.of_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is told `ESTALE`.
    pub(super) fn begin(&self, thread: u32, walk: Walk) {
        if thread == 0 {
            // In a container whose threads we do not see.
            return;
        }
        let mut walks = self.lock();
        if walks.len() >= WALKS_MAX {
            walks.clear();
        }
        walks.insert(thread, walk);
        self.count.store(walks.len(), Ordering::SeqCst);
    }

    /// Whether a request is a step of a walk that is made again, and is served wherever its directory is.
    pub(super) fn go_on(&self, thread: u32, step: &Step, ino: impl Fn(u64) -> Ino) -> bool {
        if self.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        // Nobody else has to do with this thread's.
        let Some(mut walk) = self.lock().remove(&thread) else { return false };
        let call = walk.call.as_ref().and_then(|_| Call::of(thread));
        let goes = match (&walk.call, &call) {
            (Some(before), Some(now)) if before != now => Goes::Over(false),
            _ => walk.go(step, call.is_some(), ino),
        };
        let mut walks = self.lock();
        if matches!(goes, Goes::On(_)) {
            walks.insert(thread, walk);
        }
        self.count.store(walks.len(), Ordering::SeqCst);
        matches!(goes, Goes::On(true) | Goes::Over(true))
    }

    /// What a thread asks next belongs to no walk.
    pub(super) fn end(&self, thread: u32) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut walks = self.lock();
        walks.remove(&thread);
        self.count.store(walks.len(), Ordering::SeqCst);
    }

    /// A lookup of a thread was answered with a node, or with none.
    pub(super) fn arrived(&self, thread: u32, (parent, name): (u64, &Name), node: Option<u64>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(walk) = self.lock().get_mut(&thread)
            && walk.last.as_ref().is_some_and(|last| last.0 == parent && last.1 == *name)
        {
            walk.to = node;
            if let (From::Held(seen) | From::Root { seen, .. }, Some(node)) = (&mut walk.from, node)
            {
                seen.insert(node);
            }
        }
    }
}

/// What becomes of a walk, and whether its step is served by what it is.
enum Goes {
    On(bool),
    Over(bool),
}

impl Walk {
    /// A walk that begins when it is made again.
    pub(super) fn new(
        refused: Step,
        edges: Vec<Place>,
        starts: Vec<Start>,
        call: Option<Call>,
    ) -> Self {
        Self { call, refused, edges, starts, from: From::Nowhere, last: None, to: None }
    }

    /// It begins with this name, in a directory that the caller holds.
    pub(super) fn held(mut self, place: Place) -> Self {
        self.from = From::Held(HashSet::from([place.0]));
        self.last = Some(place);
        self
    }

    /// `is_same`: it is known to be the same call.
    fn go(&mut self, step: &Step, is_same: bool, ino: impl Fn(u64) -> Ino) -> Goes {
        match step {
            Step::Look(dir, name) => self.look(*dir, name, is_same, ino),
            Step::Name(dir, name) => Goes::Over(match &self.from {
                From::Nowhere => false,
                From::Root { seen, .. } => {
                    self.is_last(*dir, name) || self.is_of_two(is_same) && seen.contains(dir)
                }
                From::Held(seen) => self.is_last(*dir, name) || is_same && seen.contains(dir),
            }),
            Step::Move((dir, _), (new_dir, _)) => Goes::Over(match &self.from {
                From::Nowhere => false,
                From::Root { seen, .. } | From::Held(seen) => {
                    is_same && seen.contains(dir) && seen.contains(new_dir)
                }
            }),
            Step::Node(node) => Goes::Over(match &self.from {
                From::Nowhere => false,
                From::Root { .. } => self.to == Some(*node),
                From::Held(seen) => self.to == Some(*node) || is_same && seen.contains(node),
            }),
        }
    }

    fn look(&mut self, dir: u64, name: &Name, is_same: bool, ino: impl Fn(u64) -> Ino) -> Goes {
        let is_served = match &mut self.from {
            From::Root { .. } if dir == ROOT => true,
            _ if dir == ROOT => {
                self.from = From::Root { seen: HashSet::from([ROOT]), asked: HashSet::default() };
                true
            }
            From::Nowhere => {
                if self.starts.iter().any(|start| start.leads(ino(dir), name)) {
                    self.from = From::Held(HashSet::from([dir]));
                    true
                } else if self.refused == Step::Look(dir, name.clone()) {
                    return Goes::On(false);
                } else {
                    return Goes::Over(false);
                }
            }
            From::Root { seen, asked } => {
                // Of a call with two paths, once each: the names themselves are asked for after both were walked.
                let is_of_two = is_same && self.call.as_ref().is_some_and(Call::is_of_two);
                let is_new = asked.insert((dir, name.clone()));
                if self.to != Some(dir) && !(is_of_two && is_new && seen.contains(&dir)) {
                    return Goes::Over(false);
                }
                true
            }
            From::Held(seen) => {
                // Through `..`, or through a symlink's target: from any of those it has come to, or above them.
                let is_near = seen.contains(&dir) || self.edges.iter().any(|(up, _)| *up == dir);
                if self.to != Some(dir)
                    && !(is_same && is_near)
                    && self.last.as_ref() != Some(&(dir, name.clone()))
                {
                    return Goes::Over(false);
                }
                seen.insert(dir);
                true
            }
        };
        self.last = Some((dir, name.clone()));
        self.to = None;
        Goes::On(is_served)
    }

    fn is_of_two(&self, is_same: bool) -> bool {
        is_same && self.call.as_ref().is_some_and(Call::is_of_two)
    }

    fn is_last(&self, dir: u64, name: &Name) -> bool {
        self.last.as_ref().is_some_and(|last| last.0 == dir && last.1 == *name)
    }
}

#[cfg(test)]
#[path = "walks_tests.rs"]
mod tests;
