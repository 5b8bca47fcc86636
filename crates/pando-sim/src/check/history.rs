//! The history of a run: what clients did, and what they were answered.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::{Op as Wire, RequestId};
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Name, SessionId, TxnId};

use super::event::{Event, EventIndex, Fate};
use super::lent::{ElementOf, Ended, Lent, Loans};
use super::loose::Walked;
use super::sight::Sight;
use crate::model::{Call, Op, Outcome, Value, Who};

/// All operations of a run.
#[derive(Clone, Default, Debug)]
pub struct History {
    events: Vec<Event>,
    lanes: usize,
    clock: u64,
    /// The event that each request is part of.
    requests: BTreeMap<RequestId, EventIndex>,
    /// When each session was last known to be alive.
    alive: BTreeMap<SessionId, u64>,
    /// What is known of parts that were lent.
    pub loans: Loans,
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

    /// All events.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn event_mut(&mut self, event: EventIndex) -> Option<&mut Event> {
        self.events.get_mut(event)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Event> {
        self.events.iter_mut()
    }

    /// Keeps only some events. Requests are not known by their events any more.
    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&Event) -> bool) {
        self.requests.clear();
        self.events.retain(is_kept);
    }

    /// Something may have happened at any time since `since`, or never.
    pub(crate) fn may_happen(&mut self, call: Call, since: u64) {
        let lane = self.lane();
        self.push(lane, call, since);
    }

    /// A grant is over at its shard, after this many elements, or that is lost again.
    pub fn grant_ends(&mut self, grant: TxnId, ended: Option<(u64, bool)>) -> Option<Ended> {
        self.clock += 1;
        let at = self.clock;
        let ended = ended.map(|(applied, is_fenced)| Ended { applied, is_fenced, at });
        self.loans.ends(grant, ended)
    }

    /// An operation begins.
    pub fn invoke(&mut self, lane: usize, call: Call) -> EventIndex {
        self.clock += 1;
        let invoked = self.clock;
        self.push(lane, call, invoked)
    }

    /// An operation begins, and nothing else runs.
    pub fn invoke_exact(&mut self, lane: usize, call: Call) -> EventIndex {
        let event = self.invoke(lane, call);
        self.events[event].exact = true;
        event
    }

    fn push(&mut self, lane: usize, call: Call, invoked: u64) -> EventIndex {
        self.events.push(Event {
            lane,
            call,
            invoked,
            returned: None,
            lost: None,
            asked: false,
            fate: Fate::Unknown,
            applied: None,
            lost_session: false,
            sight: None,
            checked_before: false,
            exact: false,
            walked: Walked::default(),
            attr: None,
            loose: false,
            lent: Lent::default(),
            believes: false,
            skipped: false,
        });
        self.events.len() - 1
    }

    /// An operation failed without an answer. If it has opened a file, its client does not know of
    /// it, and the open ends at some later time.
    pub fn lose(&mut self, event: EventIndex, errno: Errno, lost_session: bool) {
        let Event { call, invoked, .. } = &mut self.events[event];
        let opens = matches!(call.op, Op::Open { .. } | Op::Create { open: true, .. });
        if opens {
            // No client has this number.
            call.who = Who::MAX - event as Who;
            let (who, invoked) = (call.who, *invoked);
            let op = Op::EndSession;
            let lane = self.lane();
            self.push(lane, Call { who, credentials: Credentials::ROOT, op }, invoked);
        }
        self.events[event].lost = Some(errno);
        self.events[event].lost_session = lost_session;
    }

    /// A changing request of an operation has reached a shard. What shards said of an earlier
    /// request is no longer final.
    pub fn asked(&mut self, event: EventIndex, id: RequestId) {
        self.requests.insert(id, event);
        let Some(event) = self.events.get_mut(event) else { return };
        event.asked = true;
        if matches!(event.fate, Fate::Refused(old) if old != id) {
            event.fate = Fate::Unknown;
        }
    }

    /// A shard has applied the changes of a request.
    pub fn applied(&mut self, id: RequestId, made: Option<Ino>) {
        let event = self.requests.get(&id).and_then(|event| self.events.get_mut(*event));
        if let Some(event) = event {
            self.clock += 1;
            event.applied = Some((self.clock, made));
        }
    }

    /// A holder applies changes of an operation as an element, which makes this inode. Its shard
    /// may do so from now on, also if the client hears nothing of it.
    pub fn changes(&mut self, event: EventIndex, element: ElementOf, made: Option<Ino>) {
        if let Some(event) = self.events.get_mut(event) {
            self.clock += 1;
            event.applied = Some((self.clock, made));
            event.lent.made.push(element);
            event.asked = true;
        }
    }

    /// Whether changes of the request's event were applied.
    #[must_use]
    pub fn was_applied(&self, id: RequestId) -> bool {
        let event = self.requests.get(&id).and_then(|event| self.events.get(*event));
        event.is_some_and(|event| event.applied.is_some())
    }

    /// The applied changes of a request were lost with the shard's process.
    pub fn lost_again(&mut self, id: RequestId) {
        let event = self.requests.get(&id).and_then(|event| self.events.get_mut(*event));
        if let Some(event) = event {
            event.applied = None;
        }
    }

    /// A request of an operation has reached a shard without a trail.
    pub fn asked_loosely(&mut self, event: EventIndex, trace: u64, wire: &Wire) {
        if let Some(Event { call, walked, .. }) = self.events.get_mut(event)
            && matches!(call.op, Op::ByPath { .. })
        {
            walked.asked(&call.op, trace, wire);
        }
    }

    /// A shard has told where a name leads, for a request without a trail.
    pub fn found_loosely(&mut self, event: EventIndex, dir: Ino, name: Name, ino: Ino) {
        if let Some(event) = self.events.get_mut(event) {
            event.walked.found(dir, name, ino);
        }
    }

    /// The client tells whether the operation's last walk was one that no shard judges.
    pub fn walked(&mut self, event: EventIndex, is_loose: bool) {
        self.events[event].walked.is_loose = Some(is_loose);
    }

    /// A shard tells that the operation has run, or that it was refused.
    pub fn told(&mut self, event: EventIndex, id: RequestId, ran: Option<Option<Ino>>) {
        self.clock += 1;
        let now = self.clock;
        if let Some(event) = self.events.get_mut(event)
            && !matches!(event.fate, Fate::Ran(..))
        {
            event.fate = ran.map_or(Fate::Refused(id), |made| Fate::Ran(now, made));
        }
    }

    /// The session is known to be alive now.
    pub fn alive(&mut self, session: SessionId) {
        self.alive.insert(session, self.clock);
    }

    /// When the session was last known to be alive; 0 if it never was.
    #[must_use]
    pub fn last_alive(&self, session: SessionId) -> u64 {
        self.alive.get(&session).copied().unwrap_or(0)
    }

    /// When an operation began.
    #[must_use]
    pub fn invoked(&self, event: EventIndex) -> u64 {
        self.events[event].invoked
    }

    /// A client is gone, and its session may have ended at any time after `since`. Its opens end at
    /// some time after that.
    pub fn gone(&mut self, who: Who, since: u64) {
        let lane = self.lane();
        let call = Call { who, credentials: Credentials::ROOT, op: Op::EndSession };
        self.push(lane, call, since);
    }

    /// A client has a new session after its old one ended. What was open in the old session is held
    /// by both, until shards end the old one.
    pub fn begun_anew(&mut self, who: Who, since: u64) {
        let lane = self.lane();
        // No client has this number.
        let old = Who::MAX - self.events.len() as Who;
        let call = |who, op| Call { who, credentials: Credentials::ROOT, op };
        let event = self.push(lane, call(who, Op::Linger(old)), since);
        self.clock += 1;
        self.events[event].returned = Some((self.clock, Ok(Value::Done)));
        self.push(lane, call(old, Op::EndSession), since);
    }

    /// The changes of an operation may have happened since `since`, before it began.
    pub fn backdate(&mut self, event: EventIndex, since: u64) {
        let lane = self.lane();
        let event = &mut self.events[event];
        event.lane = lane;
        event.invoked = event.invoked.min(since);
    }

    /// One open was lost with a session, between `since` and now.
    pub fn let_go(&mut self, who: Who, ino: Ino, since: u64) {
        let lane = self.lane();
        let call = Call { who, credentials: Credentials::ROOT, op: Op::Release(ino) };
        let event = self.push(lane, call, since);
        self.clock += 1;
        self.events[event].returned = Some((self.clock, Ok(Value::Done)));
    }

    /// An operation is answered. Attributes told by a lookup, or by a change of a directory, become
    /// a read of its own on the lane `aside`.
    pub fn respond(&mut self, event: EventIndex, outcome: Outcome, aside: usize) {
        self.clock += 1;
        if let Some(stat) = separate(self.events[event].call.op.inner(), &outcome) {
            let mut second = self.events[event].clone();
            second.lane = aside;
            second.call.op = Op::GetAttr(stat.ino);
            second.returned = Some((self.clock, Ok(Value::Stat(stat))));
            self.events.push(second);
            self.clock += 1;
        }
        self.events[event].returned = Some((self.clock, outcome));
    }

    /// Notes the attributes in an event's answer.
    pub fn mark(&mut self, event: EventIndex, attr: Option<Attr>) {
        self.events[event].attr = attr;
    }

    /// Copies another history, with one answer changed.
    #[cfg(test)]
    pub(super) fn replay(&mut self, other: &Self, lie: EventIndex, outcome: Outcome) {
        self.events.clone_from(&other.events);
        if let Some(returned) = &mut self.events[lie].returned {
            returned.1 = outcome;
        }
    }

    /// The history with each listing split into sights, one for each name that its directory ever
    /// had. An entry that existed throughout must be seen, and one that never existed cannot be.
    /// The sights of one listing are independent.
    #[must_use]
    pub fn with_sights(&self) -> Self {
        let names = self.names();
        let mut all = self.clone();
        for event in &mut all.events {
            event.checked_before = self.checked_before(event);
        }
        all.loosen();
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

    /// The history without sessions that linger. `None`: none does.
    #[must_use]
    pub fn without_lingering(&self) -> Option<Self> {
        let lingers = |event: &Event| match event.call.op {
            Op::Linger(old) => Some(old),
            _ => None,
        };
        let old: BTreeSet<Who> = self.events.iter().filter_map(lingers).collect();
        let mut all = self.clone();
        for event in &mut all.events {
            event.skipped = lingers(event).is_some() || old.contains(&event.call.who);
        }
        (!old.is_empty()).then_some(all)
    }

    /// The history without changes that no shard was seen making. An order of it is one of the
    /// whole history, since such a change may never have happened.
    pub(super) fn without_unseen(&self) -> Self {
        let mut all = self.clone();
        all.events.iter_mut().for_each(|event| event.skipped |= event.is_unseen());
        all
    }

    /// Turns calls by a path that no shard judged into operations by number, with a sight of each
    /// component.
    fn loosen(&mut self) {
        for index in 0..self.events.len() {
            let event = &mut self.events[index];
            let Some((op, sights)) = event.walked.judged(&event.call.op) else { continue };
            (event.call.op, event.loose) = (op, true);
            // If the call may not have run, it is unknown what its client had seen.
            let Some(ended) = event.ended() else { continue };
            for sight in sights {
                let mut seen = self.events[index].clone();
                seen.lane = self.lane();
                seen.call.op = Op::Lookup(sight.dir, sight.name.clone());
                seen.returned = Some((ended, Ok(Value::Done)));
                seen.sight = Some(sight);
                self.events.push(seen);
            }
        }
    }

    fn checked_before(&self, event: &Event) -> bool {
        let names = matches!(
            event.call.op.inner(),
            Op::Rmdir(..) | Op::Unlink(..) | Op::Link(..) | Op::Rename { .. }
        );
        let end = |event: &Event| event.ended().unwrap_or(u64::MAX);
        let changes = |other: &Event| match other.call.op.inner() {
            Op::SetAttr(_, set) => set.mode.is_some() || set.uid.is_some() || set.gid.is_some(),
            _ => false,
        };
        names
            && event.call.credentials.uid != 0
            && self.events.iter().any(|other| {
                changes(other) && other.invoked < end(event) && end(other) > event.invoked
            })
    }

    /// All names that were ever given in each directory.
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

    /// Inos that were seen, but that no answered operation made. Operations without an answer made
    /// them.
    #[must_use]
    pub fn orphans(&self) -> Vec<Ino> {
        let mut made = BTreeSet::from([Ino::ROOT]);
        let mut seen = BTreeSet::new();
        for event in &self.events {
            if let (None, Fate::Ran(_, Some(ino))) = (&event.returned, event.fate) {
                made.insert(ino);
            }
            let Some((_, Ok(value))) = &event.returned else { continue };
            if let Some(ino) = created(event.call.op.inner(), value) {
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
            created(event.call.op.inner(), value).filter(|ino| !made.insert(*ino))
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

fn separate(op: &Op, outcome: &Outcome) -> Option<crate::model::Stat> {
    match (op, outcome) {
        (Op::SetAttr(..), Ok(Value::Stat(stat))) if stat.kind == FileKind::Directory => Some(*stat),
        (Op::Lookup(..), Ok(Value::Stat(stat)))
        | (Op::Create { .. }, Ok(Value::Created(stat, false))) => Some(*stat),
        _ => None,
    }
}
