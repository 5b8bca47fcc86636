//! What clients did and saw.

use std::collections::{BTreeMap, BTreeSet};

use pando_model::{Call, Op, Outcome, Value, Who};
use pando_types::op::{Op as Wire, RequestId};
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Name, SessionId};

use super::loose::Walked;

/// Position of an event in its history.
pub type EventIndex = usize;

/// What shards said of an operation whose caller never heard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Fate {
    /// Nothing: it may have run, or may yet.
    #[default]
    Unknown,
    /// It was refused, and does nothing.
    Refused(RequestId),
    /// It had run by this moment, and has made this.
    Ran(u64, Option<Ino>),
}

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
    /// Whether any changing request of it came to a shard, as far as that was watched.
    pub asked: bool,
    /// What shards said of it.
    pub fate: Fate,
    /// When a shard applied what it changes, and what it made, as far as that was watched. It tells
    /// nothing of whether that lasted: a search that begins with this order finds one soon.
    pub applied: Option<(u64, Option<Ino>)>,
    /// Whether its client lost a session meanwhile.
    pub lost_session: bool,
    /// What a listing tells of one name: a read of its own. Then `call` is the listing.
    pub sight: Option<Sight>,
    /// Permissions changed while it was under way: they are checked when its names are locked, and
    /// it takes place later.
    pub checked_before: bool,
    /// Nothing else was under way: listings and directory sizes are exact.
    pub exact: bool,
    /// Of a call by path: what was asked without its way.
    pub walked: Walked,
    /// What the answer told of an inode, with its times and versions.
    pub attr: Option<Attr>,
    /// Its way was not judged in the end: `call` is what was asked by number.
    pub loose: bool,
    /// It is not looked at.
    pub skipped: bool,
}

impl Event {
    /// Nobody heard of it, and it has not changed anything: it only reads, it was refused, or no
    /// request of it came to a shard. (Writes are made by the system, and so not watched.)
    #[must_use]
    pub fn was_nothing(&self) -> bool {
        let is_watched = !matches!(
            self.call.op,
            Op::Write(..) | Op::Release(_) | Op::EndSession | Op::Linger(_)
        );
        self.skipped
            || self.returned.is_none()
                && (reads(self.call.op.inner())
                    || matches!(self.fate, Fate::Refused(_))
                    || (is_watched && !self.asked))
    }

    /// When it had taken place, if it is known to have.
    #[must_use]
    pub fn ended(&self) -> Option<u64> {
        match (&self.returned, self.fate) {
            (Some((at, _)), _) => Some(*at),
            (None, Fate::Ran(at, _)) => Some(at),
            _ => None,
        }
    }
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
    /// Of which event each request is.
    requests: BTreeMap<RequestId, EventIndex>,
    /// When each session was last known to live.
    alive: BTreeMap<SessionId, u64>,
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
        let invoked = self.clock;
        self.push(lane, call, invoked, exact)
    }

    fn push(&mut self, lane: usize, call: Call, invoked: u64, exact: bool) -> EventIndex {
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
            exact,
            walked: Walked::default(),
            attr: None,
            loose: false,
            skipped: false,
        });
        self.events.len() - 1
    }

    /// It failed without an answer. If it has opened something, its client knows nothing of it, and
    /// lets it go some time.
    pub fn lose(&mut self, event: EventIndex, errno: Errno, lost_session: bool) {
        let Event { call, invoked, .. } = &mut self.events[event];
        let opens = matches!(call.op, Op::Open { .. } | Op::Create { open: true, .. });
        if opens {
            // Nobody else has this number.
            call.who = Who::MAX - event as Who;
            let (who, invoked) = (call.who, *invoked);
            let op = Op::EndSession;
            let lane = self.lane();
            self.push(lane, Call { who, credentials: Credentials::ROOT, op }, invoked, false);
        }
        self.events[event].lost = Some(errno);
        self.events[event].lost_session = lost_session;
    }

    /// A changing request of an operation has come to a shard: what was said of an earlier one is
    /// not the end of it.
    pub fn asked(&mut self, event: EventIndex, id: RequestId) {
        self.requests.insert(id, event);
        let Some(event) = self.events.get_mut(event) else { return };
        event.asked = true;
        if matches!(event.fate, Fate::Refused(old) if old != id) {
            event.fate = Fate::Unknown;
        }
    }

    /// A shard has applied what a request changes.
    pub fn applied(&mut self, id: RequestId, made: Option<Ino>) {
        let event = self.requests.get(&id).and_then(|event| self.events.get_mut(*event));
        if let Some(event) = event {
            self.clock += 1;
            event.applied = Some((self.clock, made));
        }
    }

    /// Whether what the event of a request changes was applied.
    #[must_use]
    pub fn was_applied(&self, id: RequestId) -> bool {
        let event = self.requests.get(&id).and_then(|event| self.events.get(*event));
        event.is_some_and(|event| event.applied.is_some())
    }

    /// What a shard had applied of a request was lost with its process.
    pub fn lost_again(&mut self, id: RequestId) {
        let event = self.requests.get(&id).and_then(|event| self.events.get_mut(*event));
        if let Some(event) = event {
            event.applied = None;
        }
    }

    /// A request of an operation has come to a shard without a trail.
    pub fn asked_loosely(&mut self, event: EventIndex, trace: u64, wire: &Wire) {
        if let Some(Event { call, walked, .. }) = self.events.get_mut(event)
            && matches!(call.op, Op::ByPath { .. })
        {
            walked.asked(&call.op, trace, wire);
        }
    }

    /// A shard has told where a name leads, asked without a trail.
    pub fn found_loosely(&mut self, event: EventIndex, dir: Ino, name: Name, ino: Ino) {
        if let Some(event) = self.events.get_mut(event) {
            event.walked.found(dir, name, ino);
        }
    }

    /// The client says whether the operation's last walk was one that no shard judges.
    pub fn walked(&mut self, event: EventIndex, is_loose: bool) {
        self.events[event].walked.is_loose = Some(is_loose);
    }

    /// A shard says that the operation has run, or that it is refused.
    pub fn told(&mut self, event: EventIndex, id: RequestId, ran: Option<Option<Ino>>) {
        self.clock += 1;
        let now = self.clock;
        if let Some(event) = self.events.get_mut(event)
            && !matches!(event.fate, Fate::Ran(..))
        {
            event.fate = ran.map_or(Fate::Refused(id), |made| Fate::Ran(now, made));
        }
    }

    /// The session lives at this moment.
    pub fn alive(&mut self, session: SessionId) {
        self.alive.insert(session, self.clock);
    }

    /// When the session was last known to live; the beginning, if never.
    #[must_use]
    pub fn last_alive(&self, session: SessionId) -> u64 {
        self.alive.get(&session).copied().unwrap_or(0)
    }

    /// When an operation began.
    #[must_use]
    pub fn invoked(&self, event: EventIndex) -> u64 {
        self.events[event].invoked
    }

    /// A client that may have been taken for dead since a moment is gone: what it held open goes
    /// some time.
    pub fn gone(&mut self, who: Who, since: u64) {
        let lane = self.lane();
        let call = Call { who, credentials: Credentials::ROOT, op: Op::EndSession };
        self.push(lane, call, since, false);
    }

    /// A client that was taken for dead has a new session. What was open in the old one is held by
    /// both until shards end that.
    pub fn begun_anew(&mut self, who: Who, since: u64) {
        let lane = self.lane();
        // Nobody else has this number.
        let old = Who::MAX - self.events.len() as Who;
        let call = |who, op| Call { who, credentials: Credentials::ROOT, op };
        let event = self.push(lane, call(who, Op::Linger(old)), since, false);
        self.clock += 1;
        self.events[event].returned = Some((self.clock, Ok(Value::Done)));
        self.push(lane, call(old, Op::EndSession), since, false);
    }

    /// What an operation does may have been done since a moment before it.
    pub fn backdate(&mut self, event: EventIndex, since: u64) {
        let lane = self.lane();
        let event = &mut self.events[event];
        event.lane = lane;
        event.invoked = event.invoked.min(since);
    }

    /// One open of a client that was taken for dead was let go, between a moment and now.
    pub fn let_go(&mut self, who: Who, ino: Ino, since: u64) {
        let lane = self.lane();
        let call = Call { who, credentials: Credentials::ROOT, op: Op::Release(ino) };
        let event = self.push(lane, call, since, false);
        self.clock += 1;
        self.events[event].returned = Some((self.clock, Ok(Value::Done)));
    }

    /// It is answered. What a lookup tells of attributes, and a
    /// change of a directory of its, becomes a read of its own, on the lane `aside`.
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

    /// What its answer told of an inode.
    pub fn mark(&mut self, event: EventIndex, attr: Option<Attr>) {
        self.events[event].attr = attr;
    }

    /// The same history, but for one answer.
    #[cfg(test)]
    pub(super) fn replay(&mut self, other: &Self, lie: EventIndex, outcome: Outcome) {
        self.events.clone_from(&other.events);
        if let Some(returned) = &mut self.events[lie].returned {
            returned.1 = outcome;
        }
    }

    /// The same history, where each listing is told apart into what it saw of every name there ever
    /// was: an entry that existed throughout must be seen, one that never existed meanwhile cannot
    /// be. The sights of one listing are independent.
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

    /// The same history, if in it no session lingers. `None`: none does.
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

    /// Calls by path whose way was not judged become operations by number, with a sight of each
    /// component.
    fn loosen(&mut self) {
        for index in 0..self.events.len() {
            let event = &mut self.events[index];
            let Some((op, sights)) = event.walked.judged(&event.call.op) else { continue };
            (event.call.op, event.loose) = (op, true);
            // Of one that may not have run, nobody knows what its client had seen.
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

    /// Inos that were seen but that no answered operation made: made by operations nobody saw the
    /// end of.
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

fn separate(op: &Op, outcome: &Outcome) -> Option<pando_model::Stat> {
    match (op, outcome) {
        (Op::SetAttr(..), Ok(Value::Stat(stat))) if stat.kind == FileKind::Directory => Some(*stat),
        (Op::Lookup(..), Ok(Value::Stat(stat)))
        | (Op::Create { .. }, Ok(Value::Created(stat, false))) => Some(*stat),
        _ => None,
    }
}

/// Whether an operation changes nothing wherever it comes.
#[must_use]
pub const fn reads(op: &Op) -> bool {
    matches!(
        op,
        Op::Lookup(..)
            | Op::GetAttr(_)
            | Op::Access(..)
            | Op::Readlink(_)
            | Op::Read(..)
            | Op::GetXattr(..)
            | Op::ListXattr(_)
            | Op::ReadDir(_)
            | Op::Parent(_)
    )
}
