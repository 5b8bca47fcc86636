//! What clients did and saw.

use std::collections::{BTreeMap, BTreeSet};

use pando_model::{Call, Op, Outcome, Value};
use pando_types::{Errno, FileKind, Ino, Name};

/// Position of an event in its history.
pub type EventIndex = usize;

/// One operation.
#[derive(Clone, Debug)]
pub struct Event {
    /// Operations of one lane follow each other.
    pub lane: usize,
    /// What was asked.
    pub call: Call,
    /// When. No two moments of a history are the same.
    pub invoked: u64,
    /// When it was answered, and how. `None`: nobody knows whether it ran, or it may still run.
    pub returned: Option<(u64, Outcome)>,
    /// Why nobody knows, if there was an error.
    pub lost: Option<Errno>,
    /// What a listing tells of one name: a read of its own. Then `call` is the listing.
    pub sight: Option<Sight>,
    /// Permissions changed while it was under way: they are checked when its names are locked, and it takes place later.
    pub checked_before: bool,
    /// Nothing else was under way: listings and directory sizes are exact.
    pub exact: bool,
}

/// Where a name led, as a listing saw it at some moment of its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sight {
    /// In which directory.
    pub dir: Ino,
    /// Which name.
    pub name: Name,
    /// To what, if to anything.
    pub to: Option<(Ino, FileKind)>,
}

/// All operations of a run.
#[derive(Clone, Default, Debug)]
pub struct History {
    events: Vec<Event>,
    lanes: usize,
    clock: u64,
}

impl History {
    /// A new lane.
    pub fn lane(&mut self) -> usize {
        self.lanes += 1;
        self.lanes - 1
    }

    /// Number of lanes.
    #[must_use]
    pub const fn lanes(&self) -> usize {
        self.lanes
    }

    /// All events in the order they began.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// An operation begins.
    pub fn invoke(&mut self, lane: usize, call: Call, exact: bool) -> EventIndex {
        self.clock += 1;
        let (invoked, returned, lost) = (self.clock, None, None);
        let (sight, checked_before) = (None, false);
        let event = Event { lane, call, invoked, returned, lost, sight, checked_before, exact };
        self.events.push(event);
        self.events.len() - 1
    }

    /// It failed without an answer.
    pub fn lose(&mut self, event: EventIndex, errno: Errno) {
        self.events[event].lost = Some(errno);
    }

    /// It is answered. What a lookup tells of attributes, and a
    /// change of a directory of its, becomes a read of its own, on the lane `aside`.
    pub fn respond(&mut self, event: EventIndex, outcome: Outcome, aside: usize) {
        self.clock += 1;
        // All shards hear of it in time: what it held open goes soon after the answer, not before it.
        if self.events[event].call.op == Op::EndSession {
            return;
        }
        if let Some(stat) = separate(&self.events[event].call.op, &outcome) {
            let mut second = self.events[event].clone();
            second.lane = aside;
            second.call.op = Op::GetAttr(stat.ino);
            second.returned = Some((self.clock, Ok(Value::Stat(stat))));
            self.events.push(second);
            self.clock += 1;
        }
        self.events[event].returned = Some((self.clock, outcome));
    }

    /// The same history, but for one answer.
    #[cfg(test)]
    pub(super) fn replay(&mut self, other: &Self, lie: EventIndex, outcome: Outcome) {
        self.events.clone_from(&other.events);
        if let Some(returned) = &mut self.events[lie].returned {
            returned.1 = outcome;
        }
    }

    /// The same history, where each listing is told apart into what it saw of every name there ever was: an entry that existed
    /// throughout must be seen, one that never existed meanwhile cannot be. The sights of one listing are independent.
    #[must_use]
    pub fn with_sights(&self) -> Self {
        let names = self.names();
        let mut all = self.clone();
        for event in &mut all.events {
            event.checked_before = self.checked_before(event);
        }
        let mut lanes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for event in self.events.iter().filter(|event| !event.exact) {
            let (Op::ReadDir(dir), Some((_, Ok(Value::Entries(entries))))) =
                (&event.call.op, &event.returned)
            else {
                continue;
            };
            let known = names.get(dir).into_iter().flatten();
            let all_names: BTreeSet<&Name> = known.copied().chain(entries.keys()).collect();
            for (nth, name) in all_names.into_iter().enumerate() {
                let lane = *lanes.entry((event.lane, nth)).or_insert_with(|| all.lane());
                let to = entries.get(name).copied();
                let sight = Some(Sight { dir: *dir, name: name.clone(), to });
                all.events.push(Event { lane, sight, ..event.clone() });
            }
        }
        all
    }

    fn checked_before(&self, event: &Event) -> bool {
        let names = matches!(
            event.call.op,
            Op::Rmdir(..) | Op::Unlink(..) | Op::Link(..) | Op::Rename { .. }
        );
        let end = |event: &Event| event.returned.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let changes = |other: &Event| match &other.call.op {
            Op::SetAttr(_, set) => set.mode.is_some() || set.uid.is_some() || set.gid.is_some(),
            _ => false,
        };
        names
            && event.call.credentials.uid != 0
            && self.events.iter().any(|other| {
                changes(other) && other.invoked < end(event) && end(other) > event.invoked
            })
    }

    /// Names that were ever given in each directory.
    fn names(&self) -> BTreeMap<Ino, BTreeSet<&Name>> {
        let mut names: BTreeMap<Ino, BTreeSet<&Name>> = BTreeMap::new();
        for event in &self.events {
            match &event.call.op {
                Op::Create { dir, name, .. } | Op::Mkdir(dir, name, _) | Op::Link(_, dir, name) => {
                    names.entry(*dir).or_default().insert(name);
                }
                Op::Rename { from, name, to, new_name, .. } => {
                    names.entry(*from).or_default().insert(name);
                    names.entry(*to).or_default().insert(new_name);
                }
                _ => {}
            }
        }
        names
    }

    /// Inos that were seen but that no answered operation made: made by operations nobody saw the end of.
    #[must_use]
    pub fn orphans(&self) -> Vec<Ino> {
        let mut made = BTreeSet::from([Ino::ROOT]);
        let mut seen = BTreeSet::new();
        for event in &self.events {
            let Some((_, Ok(value))) = &event.returned else { continue };
            if let Some(ino) = created(&event.call.op, value) {
                made.insert(ino);
            }
            match value {
                Value::Stat(stat) | Value::Created(stat, _) => {
                    seen.insert(stat.ino);
                }
                Value::Entries(entries) => seen.extend(entries.values().map(|(ino, _)| *ino)),
                _ => {}
            }
        }
        seen.difference(&made).copied().collect()
    }

    /// An ino that two operations made.
    #[must_use]
    pub fn ino_made_twice(&self) -> Option<Ino> {
        let mut made = BTreeSet::new();
        self.events.iter().find_map(|event| {
            let Some((_, Ok(value))) = &event.returned else { return None };
            created(&event.call.op, value).filter(|ino| !made.insert(*ino))
        })
    }
}

/// The ino that an operation made.
#[must_use]
pub fn created(op: &Op, value: &Value) -> Option<Ino> {
    match (op, value) {
        (Op::Create { .. }, Value::Created(stat, true)) => Some(stat.ino),
        (Op::Mkdir(..), Value::Stat(stat)) => Some(stat.ino),
        _ => None,
    }
}

fn separate(op: &Op, outcome: &Outcome) -> Option<pando_model::Stat> {
    match (op, outcome) {
        (Op::SetAttr(..), Ok(Value::Stat(stat))) if stat.kind == FileKind::Directory => Some(*stat),
        (Op::Lookup(..), Ok(Value::Stat(stat)))
        | (Op::Create { .. }, Ok(Value::Created(stat, false))) => Some(*stat),
        _ => None,
    }
}
