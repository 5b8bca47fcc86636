//! The search for an order (Wing & Gong, with Lowe's set of states that were already seen).
//!
//! 1. An operation may come next if no other one that is left returned before it began.
//! 2. An operation that changes nothing in any state is taken as soon as it agrees with the model.
//!    If any order exists, so does one with it here.
//! 3. An operation without an answer may come at any time after it began, or never.
//! 4. If a history takes long, the search looks closely once in between
//!    ([`closely`](super::closely)).

use std::collections::HashSet;

use crate::model::{Call, Op, Tree};
use pando_types::{Credentials, Ino};

use super::agree::{Verdict, compare};
use super::closely::closely;
use super::excuse::{Excuse, Excuses};
use super::history::{created, reads};
use super::{Event, EventIndex, Failure, Fate, History};

/// Steps after which the search gives up. An honest history needs far fewer.
const STEPS_MAX: u64 = 3_000_000;

/// Steps after which sessions that linger are included.
const STEPS_PLAIN: u64 = 1_000_000;

/// Events in the order found, and the tree that they lead to.
pub struct Order {
    /// Events that took place, each with the ino that it gave to what it made.
    pub events: Vec<(EventIndex, Ino)>,
    /// The model's tree at the end.
    pub tree: Tree,
    /// The excuses that were applied.
    pub excuses: Excuses,
}

impl Order {
    pub(super) fn new(history: &History, events: Vec<(EventIndex, Ino)>, tree: Tree) -> Self {
        let excuses = excuses(history, &events);
        Self { events, tree, excuses }
    }
}

/// Steps after which the close search is tried.
const STEPS_SIMPLE: u64 = 30_000;

/// Finds an order of `history`, listings included. Few histories have sessions that linger, and
/// such a session may end at any time or never. So the search includes them only if it finds no
/// order without them.
pub fn linearize(history: &History) -> Result<Order, Box<Failure>> {
    let all = history.with_sights();
    if let Some(plain) = all.without_lingering()
        && let Ok(order) = linearize_told(&plain, STEPS_PLAIN)
    {
        return Ok(order);
    }
    let mut order = linearize_told(&all, STEPS_MAX)?;
    let lingering = all.without_lingering().map_or(0, |_| 1);
    Excuse::Lingering.count(lingering, &mut order.excuses);
    Ok(order)
}

fn linearize_told(history: &History, steps_max: u64) -> Result<Order, Box<Failure>> {
    let mut search = Search::new(history);
    let mut frames = vec![search.advance(Tree::new())];
    loop {
        let Some(frame) = frames.last_mut() else { return Err(search.failure(false)) };
        if search.is_done() {
            let tree = frame.tree.clone();
            return Ok(Order::new(history, search.order, tree));
        }
        search.steps += 1;
        if search.steps == STEPS_SIMPLE
            && let Some(order) = closely(history)
        {
            return Ok(order);
        }
        if search.steps > steps_max {
            return Err(search.failure(true));
        }
        search.unwind(frame.taken);
        let Some((lane, ino)) = frame.choices.pop() else {
            frames.pop();
            continue;
        };
        let Some(tree) = search.attempt(&frame.tree, lane, ino) else { continue };
        search.take(lane, ino);
        let next = search.advance(tree);
        if search.seen.insert((search.places(), next.tree.fingerprint())) {
            frames.push(next);
        }
    }
}

/// The tree after an operation, if the model agrees with its answer, and the excuse that was
/// needed.
fn attempt(event: &Event, tree: &Tree, ino: Ino) -> Option<(Tree, Option<Excuse>)> {
    if let Some(sight) = &event.sight {
        let to = tree.node(sight.dir).ok().and_then(|dir| dir.entries.get(&sight.name));
        return (to == sight.to.as_ref()).then(|| (tree.clone(), None));
    }
    let Some((_, observed)) = &event.returned else { return unanswered(event, tree, ino) };
    let mut after = tree.clone();
    let new = observed.as_ref().ok().and_then(|value| created(event.call.op.inner(), value));
    let expected = after.apply(&event.call, new.unwrap_or(ino));
    match compare(event, tree, &expected, observed) {
        Verdict::Same => Some((after, None)),
        Verdict::Alike(excuse) => Some((after, Some(excuse))),
        Verdict::Excused(excuse) => Some((tree.clone(), Some(excuse))),
        Verdict::Different if event.checked_before => {
            after.clone_from(tree);
            let expected = after.apply(&unchecked(event), ino);
            let is_same = compare(event, tree, &expected, observed) == Verdict::Same;
            is_same.then_some((after, Some(Excuse::CheckedBefore)))
        }
        Verdict::Different => None,
    }
}

/// The tree after an operation without an answer, if it changes the tree or is known to have run.
fn unanswered(event: &Event, tree: &Tree, ino: Ino) -> Option<(Tree, Option<Excuse>)> {
    if tree.node(ino).is_ok() {
        return None;
    }
    let mut after = tree.clone();
    let ran = after.apply(&event.call, ino).is_ok();
    if !matches!(event.fate, Fate::Ran(..)) {
        // If it fails or changes nothing, it is as if it never ran.
        let is_noticed = ran && after.fingerprint() != tree.fingerprint();
        return is_noticed.then_some((after, None));
    }
    if ran || !event.checked_before {
        return ran.then_some((after, None));
    }
    after.clone_from(tree);
    let ran = after.apply(&unchecked(event), ino).is_ok();
    ran.then_some((after, Some(Excuse::CheckedBefore)))
}

/// The call as root, so that no permission is checked.
fn unchecked(event: &Event) -> Call {
    Call { credentials: Credentials::ROOT, ..event.call.clone() }
}

/// The excuses that an order needs.
fn excuses(history: &History, order: &[(EventIndex, Ino)]) -> Excuses {
    let (mut excuses, mut tree) = (Excuses::new(), Tree::new());
    for (index, ino) in order {
        let event = &history.events()[*index];
        Excuse::LooseWalk.count(usize::from(event.loose), &mut excuses);
        if let Some((after, excuse)) = attempt(event, &tree, *ino) {
            tree = after;
            excuse.inspect(|excuse| excuse.count(1, &mut excuses));
        }
    }
    excuses
}

pub(super) fn returned(event: &Event) -> u64 {
    event.ended().unwrap_or(u64::MAX)
}

/// Whether an order must contain the event.
pub(super) fn is_known(event: &Event) -> bool {
    event.ended().is_some() && !event.was_nothing()
}

/// Whether an operation changes nothing, whatever the tree is: it only reads, or it failed.
fn only_tells(event: &Event) -> bool {
    match &event.returned {
        Some((_, Err(_))) => true,
        Some((_, Ok(_))) => reads(event.call.op.inner()),
        None => false,
    }
}

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
    known_left: usize,
    pub(super) order: Vec<(EventIndex, Ino)>,
    orphans: Vec<Ino>,
    seen: HashSet<(u64, u64)>,
    steps: u64,
    best: Option<(Vec<EventIndex>, Vec<usize>, Tree)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut lanes = vec![Vec::new(); history.lanes()];
        for (index, event) in history.events().iter().enumerate() {
            if !event.was_nothing() {
                lanes[event.lane].push(index);
            }
        }
        Self {
            history,
            next: vec![0; lanes.len()],
            lanes,
            known_left: history.events().iter().filter(|e| is_known(e)).count(),
            order: Vec::new(),
            orphans: history.orphans(),
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
        let nobody_saw = Ino(u64::MAX - event.map_or(0, |(index, _)| index) as u64);
        watched.into_iter().chain(orphans.iter().copied()).chain([told.unwrap_or(nobody_saw)])
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

    fn failure(&mut self, gave_up: bool) -> Box<Failure> {
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
        Box::new(Failure::new(self.history, &taken, stuck.collect(), tree.clone(), gave_up))
    }
}
