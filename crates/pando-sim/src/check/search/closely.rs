//! A search for histories on which the simple search takes too long. One early mistake costs the
//! simple search much: a change without an answer, taken too soon or too late, shows only later.
//! Meanwhile it tries all orders of everything else that ran.
//!
//! 1. Some operations must come, and nothing that may still come before them has to do with them.
//!    Such an operation may come now: if any order exists, so does one with it here. If it
//!    disagrees with the model, no order goes on from here.
//! 2. The search remembers why a state leads nowhere, as a set of operations that disagreed. When
//!    it goes back, it does not repeat a choice that has nothing to do with any of them. For other
//!    choices it tries only alternatives that have to do with the choice, or that must come before
//!    such an operation.
//!
//! 3. It first leaves out changes without an answer that no shard was seen making.
//!
//! If this search finds no order, that proves nothing.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use pando_types::Ino;

use super::footprint::Footprint;
use crate::check::excuse::Excuses;
use crate::check::search::attempt::{is_known, returned};
use crate::check::search::frontier::Search;
use crate::check::search::order::excuses;
use crate::check::{Event, EventIndex, History};
use crate::model::Tree;

/// Steps after which the search gives up.
const STEPS_MAX: u64 = 200_000;

/// Operations that disagreed with the model, with their footprints at that point.
type Why = BTreeMap<EventIndex, Rc<Footprint>>;

/// A state on the search's path.
struct State {
    /// Hashes of the position in each lane, and of the tree.
    key: (u64, u64),
    tree: Tree,
    taken: usize,
    /// Choices that may be tried from this state, the best last.
    choices: Vec<(usize, Ino)>,
    /// The choice tried last: its lane, its event and its footprint.
    tried: Option<(usize, EventIndex, Rc<Footprint>)>,
    /// Why the choices tried so far led nowhere.
    why: Why,
    /// Whether `why` is complete: a choice was tried, or it is known that none can be.
    is_explained: bool,
}

/// What a close search keeps beside its `Search`.
struct Close {
    /// The footprint of each event.
    prints: Vec<Rc<Footprint>>,
    /// States that lead nowhere, each with the reason.
    failed: HashMap<(u64, u64), Why>,
    path: Vec<State>,
}

/// Finds an order of a history after its listings were split into sights. `None`: none was found.
pub fn closely(history: &History) -> Option<Excuses> {
    let order = |history: &History| {
        let mut search = Search::new(history);
        search.closely()?;
        Some(excuses(history, &search.order))
    };
    order(&history.without_unseen()).or_else(|| order(history))
}

impl Search<'_> {
    fn closely(&mut self) -> Option<()> {
        let prints = Footprint::all(self.history).into_iter().map(Rc::new).collect();
        let mut close = Close { prints, failed: HashMap::new(), path: Vec::new() };
        let first = self.state(&close, Tree::new());
        close.path.push(first);
        for _ in 0..STEPS_MAX {
            let state = close.path.last_mut()?;
            if self.is_done() {
                return Some(());
            }
            self.unwind(state.taken);
            let Some((lane, ino)) = state.choices.pop() else {
                let mut state = close.path.pop()?;
                if !state.is_explained {
                    state.why.extend(self.disagreeing(&close, &state.tree));
                }
                self.go_back(&mut close, state.key, state.why);
                continue;
            };
            let Some((index, event)) = self.event(lane) else { continue };
            let Some(tree) = self.attempt(&state.tree, lane, ino) else {
                state.why.insert(index, Rc::clone(&close.prints[index]));
                continue;
            };
            let print =
                Rc::new(Footprint::taken(event, &close.prints[index], (&state.tree, &tree)));
            (state.tried, state.is_explained) = (Some((lane, index, print)), true);
            self.take(lane, ino);
            let next = self.state(&close, tree);
            match close.failed.get(&next.key) {
                Some(why) => {
                    let why = why.clone();
                    self.go_back(&mut close, next.key, why);
                }
                None => close.path.push(next),
            }
        }
        None
    }

    fn state(&mut self, close: &Close, tree: Tree) -> State {
        let frame = self.advance(tree);
        let key = (self.places(), frame.tree.fingerprint());
        let (tried, why) = (None, Why::new());
        let (tree, taken, choices) = (frame.tree, frame.taken, frame.choices);
        let mut state = State { key, tree, taken, choices, tried, why, is_explained: false };
        let lost = self.disagreeing_lanes(&state.tree).find_map(|(lane, index)| {
            let print = close.prints[index].settled(&state.tree);
            self.is_alone(close, lane, &print).then(|| (index, Rc::new(print)))
        });
        if let Some(lost) = lost {
            (state.choices, state.why, state.is_explained) = (Vec::new(), [lost].into(), true);
            return state;
        }
        let may_come_now = |(lane, _): &&(usize, Ino)| {
            self.event(*lane).is_some_and(|(index, event)| {
                is_known(event)
                    && self.agrees(&state.tree, *lane)
                    && self.is_alone(close, *lane, &close.prints[index].settled(&state.tree))
            })
        };
        if let Some(now) = state.choices.iter().rev().find(may_come_now) {
            state.choices = vec![*now];
        }
        state
    }

    /// Operations that must come next in their lane, and that disagree with the model.
    fn disagreeing_lanes(&self, tree: &Tree) -> impl Iterator<Item = (usize, EventIndex)> {
        (0..self.lanes.len()).filter_map(move |lane| {
            let (index, event) = self.event(lane)?;
            (is_known(event) && !self.agrees(tree, lane)).then_some((lane, index))
        })
    }

    fn disagreeing(&self, close: &Close, tree: &Tree) -> Why {
        let print = |index: EventIndex| (index, Rc::clone(&close.prints[index]));
        self.disagreeing_lanes(tree).map(|(_, index)| print(index)).collect()
    }

    fn agrees(&self, tree: &Tree, lane: usize) -> bool {
        self.inos(lane).any(|ino| self.attempt(tree, lane, ino).is_some())
    }

    /// Whether no operation that may come before the lane's next one has to do with it.
    fn is_alone(&self, close: &Close, lane: usize, print: &Footprint) -> bool {
        let end = self.event(lane).map_or(0, |(_, event)| returned(event));
        !self.others_before(lane, end).any(|index| print.meets(&close.prints[index]))
    }

    /// Operations of other lanes that are left and began before `end`.
    fn others_before(&self, lane: usize, end: u64) -> impl Iterator<Item = EventIndex> {
        let others = (0..self.lanes.len()).filter(move |other| *other != lane);
        others.flat_map(move |other| {
            let rest = self.lanes[other][self.next[other]..].iter().copied();
            rest.take_while(move |index| self.history.events()[*index].invoked < end)
        })
    }

    /// A state leads nowhere. Goes back along the path, to the last state where another choice may
    /// help.
    fn go_back(&mut self, close: &mut Close, key: (u64, u64), why: Why) {
        close.failed.insert(key, why.clone());
        while let Some(mut state) = close.path.pop() {
            self.unwind(state.taken);
            let Some((lane, index, print)) = state.tried.take() else { continue };
            if !why.values().any(|other| other.meets(&print)) {
                close.failed.insert(state.key, why.clone());
                continue;
            }
            let blocking = self.blocking(close, &state.tree, lane, &print);
            state.why.retain(|_, other| other.meets(&print));
            state.why.extend(why);
            state.why.insert(index, Rc::clone(&print));
            let choices = std::mem::take(&mut state.choices);
            let helps = |choice: &(usize, Ino)| {
                self.may_help(close, choice.0, lane, &print)
                    || self.event(choice.0).is_some_and(|(index, _)| {
                        blocking.values().any(|blocked| blocked.meets(&close.prints[index]))
                    })
            };
            state.choices = choices.into_iter().filter(helps).collect();
            state.why.extend(blocking.iter().map(|(index, print)| (*index, Rc::clone(print))));
            close.path.push(state);
            return;
        }
    }

    /// Operations that disagree with the model for now, and that must come before one that meets
    /// `print`. Until they agree, no such operation can come before that of `tried`.
    fn blocking(&self, close: &Close, tree: &Tree, tried: usize, print: &Footprint) -> Why {
        let disagreeing = self.disagreeing_lanes(tree);
        let blocking = disagreeing.filter(|(_, index)| {
            self.must_precede(close, &self.history.events()[*index], tried, print)
        });
        blocking.map(|(_, index)| (index, Rc::clone(&close.prints[index]))).collect()
    }

    /// Whether it may matter that a lane's next operation comes before that of `tried`. It may if
    /// it meets `print` itself, or if it must come before another operation that does.
    fn may_help(&self, close: &Close, lane: usize, tried: usize, print: &Footprint) -> bool {
        let Some((index, event)) = self.event(lane) else { return false };
        lane == tried
            || print.meets(&close.prints[index])
            || self.must_precede(close, event, tried, print)
    }

    /// Whether `event` must come before another operation that meets `print` and that may come
    /// before that of `tried`.
    fn must_precede(&self, close: &Close, event: &Event, tried: usize, print: &Footprint) -> bool {
        let Some((_, before)) = self.event(tried) else { return false };
        self.others_before(tried, returned(before)).any(|other| {
            returned(event) < self.history.events()[other].invoked
                && print.meets(&close.prints[other])
        })
    }
}
