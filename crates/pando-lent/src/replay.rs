//! Sends what a process that has ended had answered, from its journal.
//!
//! 1. Each part goes back to its shard with what was changed in it, once the shard has all of that
//!    on its disk. Nothing of that part was open: its process is gone.
//! 2. What the shard does not take any more is set aside, and never sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use futures_util::future::join_all;
use pando_client::{Transport, TransportError};
use pando_types::lend::{Act, Element, GrantState, Standing};
use pando_types::op::{ELEMENTS_MAX, ObjectId, Op};
use pando_types::reply::Body;
use pando_types::{Epoch, Errno, Lsn, ShardIndex, TxnId};

use crate::aside::{Hears, SetAside};
use crate::journal::{Found, Mounts, Noted, read};
use crate::known::births::probe;
use crate::known::requests::own;
use crate::objects::{Objects, named};
use crate::queue::Queue;
use crate::settings::MILLIS;

/// Pause between two looks for processes that have ended, nanoseconds.
const LOOK_EVERY: u64 = 1_000 * MILLIS;
/// Most different messages about journals.
const TOLD_MAX: usize = 1_000;
/// How long a shard is asked that does not answer, nanoseconds.
const ASK_FOR: u64 = 5_000 * MILLIS;

/// Looks for journals of processes that have ended, and sends what they have, until the transport
/// is stopped.
/// Before that it has `objects` make durable what the writes among them name.
pub async fn keep_replaying<T: Transport>(
    transport: &T,
    mounts: &Mounts,
    hears: &dyn Hears,
    objects: &dyn Objects,
) {
    let mut told = BTreeSet::new();
    loop {
        let mut tell = |what: String| {
            // The same again is no news.
            if told.len() < TOLD_MAX && told.insert(what.clone()) {
                hears.journal_fails(what);
            }
        };
        match mounts.ended() {
            Ok(found) => {
                for found in found {
                    if let Err(what) = replay_one(transport, found, hears, objects).await {
                        tell(what);
                    }
                }
            }
            Err(error) => tell(format!("the journals cannot be listed: {error}")),
        }
        let before = transport.now_nanos();
        transport.sleep(LOOK_EVERY).await;
        if transport.now_nanos().saturating_sub(before) < LOOK_EVERY / 2 {
            // The transport is stopped.
            return;
        }
    }
}

/// Sends the journals of one process. What cannot be sent now stays for the next look.
async fn replay_one<T: Transport>(
    transport: &T,
    found: Found,
    hears: &dyn Hears,
    objects: &dyn Objects,
) -> Result<(), String> {
    let journals = found.journals().map_err(|error| format!("a journal: {error}"))?;
    // Shards that do not answer keep no other shard from getting what is its own.
    let sent = journals
        .into_iter()
        .map(|journal| replay_file(transport, (&found, journal), hears, objects));
    join_all(sent).await.into_iter().collect::<Result<(), _>>()?;
    found.end().map_err(|error| format!("a journal: {error}"))
}

async fn replay_file<T: Transport>(
    transport: &T,
    (found, (path, bytes)): (&Found, (PathBuf, Vec<u8>)),
    hears: &dyn Hears,
    objects: &dyn Objects,
) -> Result<(), String> {
    let shown = path.display();
    let noted = read(&bytes).map_err(|rules| {
        format!(
            "{shown} was left by another version of Pando, with rules {rules}: start that \
             version once on this volume, or remove the file and lose what it has"
        )
    })?;
    if let Some((shard, noted)) = noted {
        let gone = Gone::of(&noted, objects, found.has_lost_objects()).await;
        let Ok(gone) = gone else {
            let noted = found.objects_are_lost();
            let why = noted.map_or_else(|error| error.to_string(), |()| "and is lost".to_owned());
            return Err(format!("{shown}: file data that it names cannot be made durable: {why}"));
        };
        let lost = replay(transport, shard, noted, &gone)
            .await
            .map_err(|_| format!("{shown}: shard {shard} does not answer; it is tried again"))?;
        if !lost.is_empty() {
            hears.set_aside(lost);
        }
    }
    std::fs::remove_file(&path).map_err(|error| format!("{shown}: {error}"))
}

/// Objects that are not durable, and never will be.
#[derive(Debug)]
pub enum Gone {
    /// All that the process stored which has ended.
    All,
    /// These.
    These(BTreeSet<ObjectId>),
}

impl Gone {
    /// Makes durable the objects that what is noted names: the process that stored them may not
    /// have done so. `is_all`: it could not.
    pub async fn of(noted: &[Noted], objects: &dyn Objects, is_all: bool) -> Result<Self, Errno> {
        if is_all {
            return Ok(Self::All);
        }
        let elements = noted.iter().filter_map(|it| match it {
            Noted::Element(element) => Some(element),
            _ => None,
        });
        let named: Vec<_> = elements.flat_map(named).collect();
        match named.is_empty() {
            true => Ok(Self::These(BTreeSet::new())),
            false => objects.adopt(named).await.map(Self::These),
        }
    }

    fn are_in(&self, element: &Element) -> bool {
        match self {
            Self::All => !named(element).is_empty(),
            Self::These(ids) if ids.is_empty() => false,
            Self::These(ids) => named(element).iter().any(|range| ids.contains(&range.object)),
        }
    }
}

/// Sends what is noted about a shard, oldest first, and returns the parts. Returns what the shard
/// does not take, and what names objects that are gone, with all that follows in its part.
pub async fn replay<T: Transport>(
    transport: &T,
    shard: ShardIndex,
    noted: Vec<Noted>,
    gone: &Gone,
) -> Result<Vec<SetAside>, TransportError> {
    let mut sending = Sending::new(transport, shard, noted);
    sending.probe().await?;
    sending.cut(gone);
    while sending.queue.unsent() > 0 {
        let elements = sending.queue.batch(ELEMENTS_MAX);
        let grants: BTreeSet<_> = elements.iter().map(|it| it.grant).collect();
        let stood = sending.all_stand(&grants);
        let mut first = BTreeMap::new();
        for element in &elements {
            first.entry(element.grant).or_insert(element.number);
        }
        if sending.send(elements).await? {
            continue;
        }
        let torn = sending.torn(&first);
        match stood && sending.all_stand(&grants) && !torn.is_empty() {
            true => sending.give_up(&torn),
            // The first element may wait for a name that a transaction has locked.
            false => sending.pause().await?,
        }
    }
    sending.return_all().await?;
    Ok(sending.lost)
}

struct Sending<'a, T> {
    transport: &'a T,
    shard: ShardIndex,
    queue: Queue,
    parts: BTreeMap<TxnId, GrantState>,
    lost: Vec<SetAside>,
    /// Until when it waits for directories that are yet to be made.
    until: u64,
}

impl<'a, T: Transport> Sending<'a, T> {
    fn new(transport: &'a T, shard: ShardIndex, noted: Vec<Noted>) -> Self {
        let (mut queue, mut parts) = (Queue::default(), BTreeMap::new());
        let unknown = || GrantState { applied: 0, standing: Standing::Unknown, inos: Vec::new() };
        let over: BTreeSet<_> = noted
            .iter()
            .filter_map(|noted| match noted {
                Noted::Over(grant) => Some(*grant),
                _ => None,
            })
            .collect();
        for noted in noted {
            match noted {
                Noted::Over(_) => {}
                Noted::Part(grant) | Noted::Element(Element { grant, .. })
                    if over.contains(&grant) => {}
                Noted::Part(grant) => drop(parts.entry(grant).or_insert_with(unknown)),
                Noted::Element(element) => {
                    parts.entry(element.grant).or_insert_with(unknown);
                    queue.push(element, 0);
                }
            }
        }
        let until = transport.now_nanos().saturating_add(ASK_FOR);
        Self { transport, shard, queue, parts, lost: Vec::new(), until }
    }

    /// Finds out how far each grant has come: no element has number 0.
    async fn probe(&mut self) -> Result<(), TransportError> {
        let asked: Vec<_> = self.parts.keys().map(|grant| probe(*grant)).collect();
        for elements in asked.chunks(ELEMENTS_MAX) {
            self.send(elements.to_vec()).await?;
        }
        Ok(())
    }

    /// Drops what names objects that are gone, with all that follows in its part.
    fn cut(&mut self, gone: &Gone) {
        for grant in self.queue.grants() {
            let its = self.queue.all().filter(|it| it.grant == grant);
            let Some(first) = its.filter(|it| gone.are_in(it)).map(|it| it.number).min() else {
                continue;
            };
            let lost = self.queue.drop_from(grant, first);
            let lost = lost.iter().filter_map(|it| SetAside::of(self.shard, it, Standing::Refused));
            self.lost.extend(lost);
        }
    }

    /// Sends elements. Returns whether fewer are left than before.
    async fn send(&mut self, elements: Vec<Element>) -> Result<bool, TransportError> {
        let before = self.queue.unsent();
        let op = Op::Stream { shard: self.shard, elements, synced: true };
        let Body::Streamed(states) = self.ask(self.shard, op).await? else { return Ok(false) };
        for (grant, mut told) in states {
            if told.standing == Standing::Unknown && grant.shard != self.shard {
                told = self.ask_again(grant, told).await;
            }
            self.queue.applied(grant, told.applied, (Epoch(0), Lsn(0)));
            if !matches!(told.standing, Standing::Stands | Standing::Awaited) {
                let lost = self.queue.drop_grant(grant);
                let lost = lost.iter().filter_map(|it| SetAside::of(self.shard, it, told.standing));
                self.lost.extend(lost);
            }
            self.parts.insert(grant, told);
        }
        self.queue.durable(Epoch(0), Lsn(0));
        Ok(self.queue.unsent() < before)
    }

    /// How far a grant has come that came with its directory, and that its shard does not know: it
    /// may be yet to hear of it from the coordinator.
    async fn ask_again(&self, grant: TxnId, unknown: GrantState) -> GrantState {
        let mut told = unknown.clone();
        for shard in [grant.shard, self.shard] {
            let op = Op::Stream { shard, elements: vec![probe(grant)], synced: true };
            // A coordinator that does not answer may have it to tell.
            let Ok(Body::Streamed(states)) = self.ask(shard, op).await else {
                return GrantState { standing: Standing::Awaited, ..unknown };
            };
            let Some((_, state)) = states.into_iter().find(|(id, _)| *id == grant) else { break };
            told = state;
            if told.standing != Standing::Unknown {
                break;
            }
        }
        told
    }

    /// Whether the directory of one of these grants may be yet to be made.
    fn awaits<'g>(&self, mut grants: impl Iterator<Item = &'g TxnId>) -> bool {
        let standing = |grant: &TxnId| self.parts.get(grant).map(|told| told.standing);
        grants.any(|grant| standing(grant) == Some(Standing::Awaited))
    }

    /// Whether the shard has said of all of these grants that they stand.
    fn all_stand(&self, grants: &BTreeSet<TxnId>) -> bool {
        let standing = |grant: &TxnId| self.parts.get(grant).map(|told| told.standing);
        grants.iter().all(|grant| standing(grant) == Some(Standing::Stands))
    }

    /// Lets some time pass. `Err`: too much has.
    async fn pause(&self) -> Result<(), TransportError> {
        match self.transport.now_nanos() < self.until {
            true => self.transport.sleep(100 * MILLIS).await,
            false => return Err(TransportError::Lost),
        }
        Ok(())
    }

    /// Grants of which an element is missing before the first one that is left.
    fn torn(&self, first: &BTreeMap<TxnId, u64>) -> BTreeSet<TxnId> {
        let applied = |grant: &TxnId| self.parts.get(grant).map_or(0, |told| told.applied);
        let torn = first.iter().filter(|(grant, number)| **number > applied(grant) + 1);
        torn.map(|(grant, _)| *grant).collect()
    }

    /// An element is missing before those that are left of these grants.
    fn give_up(&mut self, grants: &BTreeSet<TxnId>) {
        for grant in grants {
            let lost = self.queue.drop_grant(*grant);
            let lost = lost.iter().filter_map(|it| SetAside::of(self.shard, it, Standing::Refused));
            self.lost.extend(lost);
        }
    }

    /// Returns the parts that the shard still has lent.
    async fn return_all(&mut self) -> Result<(), TransportError> {
        while self.awaits(self.parts.keys()) {
            self.pause().await?;
            self.probe().await?;
        }
        let is_lent =
            |state: &GrantState| matches!(state.standing, Standing::Stands | Standing::Refused);
        let returns: Vec<_> = self
            .parts
            .iter()
            .filter(|(_, state)| is_lent(state))
            .map(|(grant, state)| Element {
                grant: *grant,
                number: state.applied + 1,
                act: Act::Return(Some(Vec::new())),
            })
            .collect();
        for elements in returns.chunks(ELEMENTS_MAX) {
            self.send(elements.to_vec()).await?;
        }
        Ok(())
    }

    async fn ask(&self, shard: ShardIndex, op: Op) -> Result<Body, TransportError> {
        let until = self.transport.now_nanos().saturating_add(ASK_FOR);
        loop {
            match self.transport.call(shard, own(op.clone())).await {
                Ok(reply) => return reply.result.map_err(|_| TransportError::Lost),
                Err(TransportError::Lost) if self.transport.now_nanos() < until => {
                    self.transport.sleep(100 * MILLIS).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
