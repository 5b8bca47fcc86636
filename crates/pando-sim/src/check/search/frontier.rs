//! The state of a search: which operations were taken, and which may come next.

use std::collections::HashSet;

use pando_types::Ino;

use super::attempt::{attempt, is_known, only_tells, returned};
use crate::check::event::{Event, EventIndex, Fate};
use crate::check::history::{History, created};
use crate::check::report::{Failure, Why};
use crate::model::{Op, Tree};

/// A state on the search's path, with the choices that may be tried from it, the best last.
pub(super) struct Frame {
    pub(super) tree: Tree,
    pub(super) taken: usize,
    pub(super) choices: Vec<(usize, Ino)>,
}

pub(super) struct Search<'a> {
    pub(super) history: &'a History,
    pub(super) lanes: Vec<Vec<EventIndex>>,
    pub(super) next: Vec<usize>,
    pub(super) known_left: usize,
    pub(super) order: Vec<(EventIndex, Ino)>,
    pub(super) orphans: Vec<Ino>,
    /// Orphans that a shard was watched making, which is known by an operation's hint. No number is
    /// given twice, so no other operation made them.
    watched: HashSet<Ino>,
    pub(super) seen: HashSet<(u64, u64)>,
    pub(super) steps: u64,
    pub(super) best: Option<(Vec<EventIndex>, Vec<usize>, Tree)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut lanes = vec![Vec::new(); history.lanes()];
        for (index, event) in history.events().iter().enumerate() {
            if !event.was_nothing() {
                lanes[event.lane].push(index);
            }
        }
        let orphans = history.orphans();
        let watched = history.events().iter().filter_map(|event| event.applied?.1);
        let watched = watched.filter(|ino| orphans.contains(ino)).collect();
        Self {
            history,
            watched,
            next: vec![0; lanes.len()],
            lanes,
            known_left: history.events().iter().filter(|e| is_known(e)).count(),
            order: Vec::new(),
            orphans,
            seen: HashSet::new(),
            steps: 0,
            best: None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.known_left == 0
    }

    pub(super) fn event(&self, lane: usize) -> Option<(EventIndex, &'a Event)> {
        let index = *self.lanes[lane].get(self.next[lane])?;
        Some((index, &self.history.events()[index]))
    }

    /// The time before which an operation must have begun to come next.
    fn bound(&self) -> u64 {
        let next = (0..self.lanes.len()).filter_map(|lane| self.event(lane));
        next.map(|(_, event)| returned(event)).min().unwrap_or(u64::MAX)
    }

    /// Lanes with an operation that may come next. They are sorted by when shards applied the
    /// operation, or else by its answer. Operations that may never have run come last.
    fn candidates(&self) -> Vec<usize> {
        let bound = self.bound();
        let mut lanes: Vec<(u64, usize)> = (0..self.lanes.len())
            .filter_map(|lane| Some((self.event(lane)?.1, lane)))
            .filter(|(event, _)| event.invoked < bound)
            .map(|(event, lane)| (event.applied.map_or(returned(event), |(at, _)| at), lane))
            .collect();
        lanes.sort_unstable();
        lanes.into_iter().map(|(_, lane)| lane).collect()
    }

    /// Takes every operation that agrees and changes nothing. The choices that are left make a
    /// frame.
    pub(super) fn advance(&mut self, tree: Tree) -> Frame {
        while self.take_tellers(&tree) {}
        if self.best.as_ref().is_none_or(|best| best.0.len() < self.order.len()) {
            let order = self.order.iter().map(|(index, _)| *index).collect();
            self.best = Some((order, self.next.clone(), tree.clone()));
        }
        let changing = |lane: &usize| self.event(*lane).is_some_and(|(_, e)| !only_tells(e));
        let lanes: Vec<usize> = self.candidates().into_iter().filter(changing).collect();
        let mut choices: Vec<_> =
            lanes.iter().flat_map(|&lane| self.inos(lane).map(move |ino| (lane, ino))).collect();
        choices.reverse();
        Frame { tree, taken: self.order.len(), choices }
    }

    /// One pass over all lanes. True: an operation was taken.
    fn take_tellers(&mut self, tree: &Tree) -> bool {
        let bound = self.bound();
        let before = self.order.len();
        for lane in 0..self.lanes.len() {
            while let Some((_, event)) = self.event(lane)
                && event.invoked < bound
                && only_tells(event)
                && self.attempt(tree, lane, Ino(0)).is_some()
            {
                self.take(lane, Ino(0));
            }
        }
        self.order.len() > before
    }

    /// The inos that the lane's next operation may have given to what it made.
    pub(super) fn inos(&self, lane: usize) -> impl Iterator<Item = Ino> + use<'_> {
        let event = self.event(lane);
        let of = |what: fn(&Event) -> Option<Ino>| event.and_then(|(_, event)| what(event));
        let told = of(|event| match event.fate {
            Fate::Ran(_, made) => made,
            _ => None,
        });
        let is_unknown = event.is_some_and(|(_, event)| {
            let makes = matches!(event.call.op.inner(), Op::Create { .. } | Op::Mkdir(..));
            makes && event.ended().is_none()
        });
        let orphans = if is_unknown { &self.orphans[..] } else { &[] };
        let watched = of(|event| event.applied?.1).filter(|ino| orphans.contains(ino));
        let unwatched = |ino: &&Ino| !self.watched.contains(*ino);
        let nobody_saw = Ino(u64::MAX - event.map_or(0, |(index, _)| index) as u64);
        let orphans = orphans.iter().filter(unwatched).copied();
        watched.into_iter().chain(orphans).chain([told.unwrap_or(nobody_saw)])
    }

    /// The tree after the lane's next operation, if the model agrees with its answer.
    pub(super) fn attempt(&self, tree: &Tree, lane: usize, ino: Ino) -> Option<Tree> {
        let (_, event) = self.event(lane)?;
        attempt(event, tree, ino).map(|(after, _)| after)
    }

    pub(super) fn take(&mut self, lane: usize, ino: Ino) {
        if let Some((index, event)) = self.event(lane) {
            self.known_left -= usize::from(is_known(event));
            self.order.push((index, ino));
            self.next[lane] += 1;
        }
    }

    pub(super) fn unwind(&mut self, taken: usize) {
        for (index, _) in self.order.split_off(taken) {
            let event = &self.history.events()[index];
            self.known_left += usize::from(is_known(event));
            self.next[event.lane] -= 1;
        }
    }

    /// A hash of the position in each lane.
    pub(super) fn places(&self) -> u64 {
        self.next.iter().fold(0x9E37_79B9_7F4A_7C15, |hash: u64, next| {
            (hash.rotate_left(19) ^ *next as u64).wrapping_mul(0xFF51_AFD7_ED55_8CCD)
        })
    }

    pub(super) fn failure(&mut self, why: Why) -> Box<Failure> {
        let (taken, next, tree) =
            self.best.take().unwrap_or((Vec::new(), self.next.clone(), Tree::new()));
        self.next = next;
        let stuck = self.candidates().into_iter().filter_map(|lane| {
            let (index, event) = self.event(lane)?;
            let new = match &event.returned {
                Some((_, Ok(value))) => created(event.call.op.inner(), value),
                _ => None,
            };
            Some((index, tree.clone().apply(&event.call, new.unwrap_or(Ino(u64::MAX)))))
        });
        Box::new(Failure::new(self.history, &taken, stuck.collect(), tree.clone(), why))
    }
}
