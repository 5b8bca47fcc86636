//! The state of a shard: its machine, its store, and the calls and messages that wait. A thread
//! that holds the shard holds this.
//!
//! One call of [`State::run`] is one batch. It handles every input at hand, writes the log once,
//! then releases the messages that may leave.

mod checkpoint;
pub(crate) mod leaving;
#[cfg(feature = "planted")]
mod planted;
mod room;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pando_core::contract::{ClientTag, Effects, Halt, Input, Now, Out, Write};
use pando_types::op::{Request, RequestId};
use pando_types::peer::Peer;
use pando_types::reply::{Refusal, Reply};
use pando_types::{Errno, KeyId, Lsn, ShardIndex};

use super::cell::Cell;
use super::connection::{ReplySink, ReplyTo};
use super::held::Held;
use super::objects::{names_objects, request_names_objects};
use super::pending::{Pending, PendingCalls};
use super::room::{Wants, wants};
use super::slot::Slot;
use super::{Durability, Shared};
use crate::clock::Wall;
use crate::machine::Machine;
use crate::metrics::OpKind;
use crate::store::{Room, Store};
use leaving::Leaving;
#[cfg(feature = "planted")]
pub use planted::Planted;
use room::{RETRY_FULL_NANOS, Reserved};

/// An entry of a shard's inbox.
pub(crate) enum Incoming {
    Call { to: ReplyTo, request: Box<Request>, begun: Instant },
    Peer(Box<Peer>),
}

/// What leaves a shard. The holder delivers it after it has released the shard.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) replies: Vec<(ReplyTo, Box<Reply>)>,
    /// The reply to the caller that runs the shard.
    pub(crate) own: Option<Box<Reply>>,
    /// Connections with something to flush. Empty between deliveries.
    pub(crate) sinks: Vec<Arc<dyn ReplySink>>,
    pub(crate) peers: Vec<(ShardIndex, Box<Peer>)>,
    pub(crate) retired: Option<babu::Retired>,
    pub(crate) job: Option<babu::CheckpointJob>,
}

impl Outbox {
    fn answer(&mut self, to: ReplyTo, reply: Box<Reply>) {
        match to {
            ReplyTo::Runner => self.own = Some(reply),
            to => self.replies.push((to, reply)),
        }
    }
}

pub(crate) struct State {
    shard: ShardIndex,
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) store: Store,
    durability: Durability,
    pending: PendingCalls,
    pub(crate) held: Held,
    leave: Vec<Out>,
    /// Replies that wait for nothing, with their receiver, kind and beginning.
    answered: Vec<(ReplyTo, Box<Reply>, OpKind, Instant)>,
    /// Writes that were applied. They are dropped later, when no caller waits.
    spent: Vec<Write>,
    inbox: Vec<Incoming>,
    /// Inputs that must wait until the current sync is over.
    after_sync: Vec<Incoming>,
    checkpoint_bytes: usize,
    is_checkpointing: bool,
    /// The next batch begins a checkpoint: the disk is full, or a driver asks for it.
    wants_checkpoint: bool,
    /// When the store last found the disk full, by the clock of timers. `None`: there was room the
    /// last time.
    full_at: Option<u64>,
    /// Number of unreadable blocks that the process has complained of.
    unreadable_told: usize,
    /// When a checkpoint last failed, by the clock of timers.
    last_refusal: Option<u64>,
    /// A held message waits for a sync that has to begin now.
    wants_sync: bool,
    wake_at: Option<u64>,
    moment: Moment,
    pub(super) wall: Wall,
    pub(super) leaving: Leaving,
    #[cfg(feature = "planted")]
    planted: Option<Planted>,
}

/// A reading of both clocks. It serves a few inputs, which are handled within microseconds.
#[derive(Default)]
struct Moment {
    nanos: u64,
    wall: u64,
    uses: u32,
}

impl Moment {
    const USES: u32 = 16;

    /// The clock of timers and the time of day, both in nanoseconds.
    fn read(&mut self, shared: &Shared, wall: &mut Wall) -> (u64, u64) {
        if self.uses == 0 {
            let (nanos, wall) = (shared.clock.mono(), wall.at(shared.clock.wall()));
            *self = Self { nanos, wall, uses: Self::USES };
        }
        self.uses -= 1;
        (self.nanos, self.wall)
    }
}

impl State {
    pub(crate) fn new(
        shard: ShardIndex,
        machine: Box<dyn Machine>,
        store: Store,
        durability: Durability,
        checkpoint_bytes: usize,
        wall: Wall,
    ) -> Self {
        Self {
            shard,
            machine,
            store,
            durability,
            pending: PendingCalls::default(),
            held: Held::default(),
            leave: Vec::new(),
            answered: Vec::new(),
            spent: Vec::new(),
            inbox: Vec::new(),
            after_sync: Vec::new(),
            checkpoint_bytes,
            is_checkpointing: false,
            wants_checkpoint: false,
            full_at: None,
            unreadable_told: 0,
            last_refusal: None,
            wants_sync: false,
            wake_at: None,
            moment: Moment::default(),
            wall,
            leaving: Leaving::default(),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// Puts the last logged group into the trees, where the next read finds it. The last answer did
    /// not wait for this.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.store.settle();
        self.spent = Vec::new();
    }

    /// Whether [`State::run`] can run a request at once. Otherwise the request goes into the inbox.
    pub(crate) fn can_run_at_once(&self, request: &Request, cell: &Cell) -> bool {
        // The thread that thaws the shard runs its inbox. So does the syncer when its sync ends.
        let must_wait = request_names_objects(request) && cell.is_syncing.load(Ordering::SeqCst);
        !self.leaving.is_frozen() && !must_wait
    }

    /// The caller that runs the shard releases it before its request is answered. The reply will go
    /// to this reply cell.
    pub(crate) fn leave_at(&mut self, tag: ClientTag, slot: &Arc<Slot>) {
        self.pending.send_to(tag, ReplyTo::Slot(slot.clone()));
    }

    /// Handles all inputs at hand as one batch, and after them the caller's `own` request, which
    /// [can be run at once](State::can_run_at_once). Returns the tag of `own`, unless `own` was
    /// answered from the records at once.
    pub(crate) fn run(
        &mut self,
        cell: &Cell,
        shared: &Shared,
        outbox: &mut Outbox,
        own: Option<(Box<Request>, Instant)>,
    ) -> Option<ClientTag> {
        if self.leaving.is_frozen() {
            // The thread that thaws the shard runs it.
            return None;
        }
        cell.counters.batches.increment();
        self.moment = Moment::default();
        self.finish_checkpoint(cell, shared, outbox);
        self.ready(cell, shared);
        if cell.take_tick() {
            self.input(Input::Tick, cell, shared);
        }
        std::mem::swap(&mut self.inbox, &mut *cell.inbox.lock());
        let mut inbox = std::mem::take(&mut self.inbox);
        let is_syncing = || cell.is_syncing.load(Ordering::SeqCst);
        if !is_syncing() {
            for incoming in std::mem::take(&mut self.after_sync) {
                self.accept(incoming, cell, shared);
            }
        }
        for incoming in inbox.drain(..) {
            if names_objects(&incoming) && is_syncing() {
                // The syncer runs the shard when its sync ends.
                cell.counters.waited_for_sync.increment();
                self.after_sync.push(incoming);
            } else {
                self.accept(incoming, cell, shared);
            }
        }
        self.inbox = inbox;
        let own = own
            .and_then(|(request, begun)| self.call(ReplyTo::Runner, request, begun, cell, shared));
        self.write(cell, outbox);
        self.begin_checkpoint(cell, shared, outbox);
        let wake_at = self.wake_at.take();
        #[cfg(feature = "planted")]
        let wake_at = wake_at.filter(|_| self.planted != Some(Planted::NoTicks));
        if let Some(at) = wake_at {
            shared.timer.tick_at(cell, at);
        }
        if std::mem::take(&mut self.wants_sync) {
            cell.sync.request();
        }
        own
    }

    /// Takes the effects of the shard's recovery.
    pub(crate) fn absorb_recovery(&mut self, effects: Effects, cell: &Cell) {
        self.absorb(effects, cell);
    }

    fn accept(&mut self, incoming: Incoming, cell: &Cell, shared: &Shared) {
        match incoming {
            Incoming::Peer(peer) => {
                cell.counters.peers_in.increment();
                self.input(Input::Peer(peer), cell, shared);
            }
            Incoming::Call { to, request, begun } => {
                self.call(to, request, begun, cell, shared);
            }
        }
    }

    /// The request's tag, or `None` if it was answered at once.
    fn call(
        &mut self,
        to: ReplyTo,
        request: Box<Request>,
        begun: Instant,
        cell: &Cell,
        shared: &Shared,
    ) -> Option<ClientTag> {
        cell.counters.requests.increment();
        if let Some(reply) = self.read(cell, shared, to.key(), &request) {
            self.answered.push((to, reply, OpKind::of(&request.op), begun));
            // This read may have been the first to find a partition that should merge.
            self.ready(cell, shared);
            return None;
        }
        let tag = self.pending.insert(Pending::new(to, &request, begun));
        self.input(Input::Client(tag, request), cell, shared);
        Some(tag)
    }

    fn input(&mut self, input: Input, cell: &Cell, shared: &Shared) {
        if cell.has_failed() {
            // The shard has stopped: it ignores peer messages and ticks. `write` answers clients.
            return;
        }
        let wants = wants(&input);
        let room = match self.room(wants, shared) {
            Ok(is_full) => Reserved { is_full, is_spent: false, of: wants },
            Err(Room::Failed(reason)) => return cell.fail(&reason),
            // Only the machine knows whether the request has run before. If it has, the machine
            // answers it as it did then.
            Err(_) if matches!(input, Input::Client(..)) => {
                self.note_full(cell);
                Reserved { is_full: true, is_spent: true, of: Wants::Nothing }
            }
            Err(_) => return self.no_room(&input, cell, shared),
        };
        self.handle(input, room, cell, shared);
        self.ready(cell, shared);
    }

    /// Runs pending requests that have become ready, as far as the disk has room.
    fn ready(&mut self, cell: &Cell, shared: &Shared) {
        while !cell.has_failed() && self.machine.has_ready() {
            let wants = wants(&Input::Ready);
            match self.room(wants, shared) {
                Ok(is_full) => {
                    let room = Reserved { is_full, is_spent: false, of: wants };
                    self.handle(Input::Ready, room, cell, shared);
                }
                Err(Room::Failed(reason)) => return cell.fail(&reason),
                Err(_) => return self.wake_soon(shared.clock.mono() + RETRY_FULL_NANOS),
            }
        }
    }

    fn handle(&mut self, input: Input, room: Reserved, cell: &Cell, shared: &Shared) {
        cell.counters.inputs.increment();
        self.settle();
        let Reserved { is_full, is_spent, .. } = room;
        let now = Now { is_full, is_spent, ..self.now(shared, cell) };
        match self.machine.handle(now, input, &self.store) {
            Ok(effects) => match self.has_room_for(&effects, room) {
                Room::Enough => self.absorb(effects, cell),
                Room::Full => {
                    self.note_full(cell);
                    self.begin_anew(now, Errno::ENOSPC, "the disk is full", cell);
                }
                Room::Failed(reason) => cell.fail(&reason),
            },
            Err(Halt::Unreadable(what)) => self.begin_anew(now, Errno::EIO, &what, cell),
            Err(halt) => halted(&halt, cell),
        }
    }

    /// The last input came to nothing, for the reason `why`. The machine begins anew from its
    /// records, and goes on.
    fn begin_anew(&mut self, now: Now, refuse: Errno, why: &str, cell: &Cell) {
        match self.machine.begin_anew(now, refuse, &self.store) {
            Ok(effects) => self.absorb(effects, cell),
            Err(_) => cell.fail(why),
        }
    }

    fn now(&mut self, shared: &Shared, cell: &Cell) -> Now {
        let (nanos, wall) = self.moment.read(shared, &mut self.wall);
        let (seen, durable) = (self.store.applied(), self.store.durable());
        Now { nanos, wall, epoch: cell.epoch, seen, durable, is_full: false, is_spent: false }
    }

    /// The reply to a caller of this process, if the request only reads, and sees nothing that is
    /// not acknowledged. `None`: [`State::run`] must run it.
    pub(crate) fn answer_at_once(
        &mut self,
        cell: &Cell,
        shared: &Shared,
        request: &Request,
        begun: Instant,
    ) -> Option<Box<Reply>> {
        self.moment = Moment::default();
        let reply = self.read(cell, shared, KeyId::OWNER, request)?;
        cell.counters.requests.increment();
        cell.latencies.record(OpKind::of(&request.op), nanos_of(begun.elapsed()));
        Some(reply)
    }

    fn read(
        &mut self,
        cell: &Cell,
        shared: &Shared,
        key: KeyId,
        request: &Request,
    ) -> Option<Box<Reply>> {
        let acknowledged = match self.durability {
            Durability::Os => cell.written(),
            Durability::Disk => self.store.durable(),
        };
        if cell.has_failed() || self.store.applied() > acknowledged {
            return None;
        }
        self.settle();
        let now = self.now(shared, cell);
        let reply = match self.machine.answer_at_once(now, key, request, &self.store) {
            Ok(reply) => reply?,
            Err(Halt::Unreadable(_)) => {
                self.refuse((request.head.id, request.head.trace), Errno::EIO)
            }
            Err(halt) => {
                halted(&halt, cell);
                return None;
            }
        };
        cell.counters.at_once.increment();
        Some(reply)
    }

    fn absorb(&mut self, effects: Effects, cell: &Cell) {
        if !effects.writes.is_empty() {
            let lsn = self.store.apply_later(&effects.writes, &effects.meta);
            self.leaving.note(lsn, &effects.writes, &effects.meta, self.moment.nanos);
            cell.counters.groups.increment();
            self.spent = effects.writes;
        }
        let (seen, durable) = (self.store.applied(), self.store.durable());
        for (need, out) in effects.out {
            let waits = (self.durability, need);
            #[cfg(feature = "planted")]
            let waits = self.waits_for(waits, &out);
            let (durability, need) = waits;
            self.wants_sync |= self.held.push(durability, need, seen, durable, out);
        }
        if let Some(at) = effects.wake_at {
            self.wake_soon(at);
        }
    }

    fn wake_soon(&mut self, at: u64) {
        self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at)));
    }

    fn refuse(&self, (id, trace): (RequestId, u64), errno: Errno) -> Box<Reply> {
        Box::new(Reply {
            id,
            trace,
            cut: 0,
            shard: self.shard,
            epoch: self.store.epoch(),
            durable: self.store.durable(),
            seen: Lsn(0),
            version: 0,
            clock: 0,
            result: Err(Refusal::Errno(errno)),
            news: None,
        })
    }

    fn write(&mut self, cell: &Cell, outbox: &mut Outbox) {
        if self.store.unreadable() > self.unreadable_told {
            for what in self.store.unreadable_blocks().skip(self.unreadable_told) {
                cell.complain(&format!("who needs this is told EIO: {what}"));
            }
            self.unreadable_told = self.store.unreadable();
        }
        #[cfg(feature = "planted")]
        self.reply_early(cell, outbox);
        if !cell.has_failed() && self.store.applied() > cell.written() {
            match self.store.write() {
                Ok(()) => cell.counters.log_writes.increment(),
                Err(error) => cell.fail(&error.what),
            }
        }
        if cell.has_failed() {
            return self.answer_all_with_eio(outbox);
        }
        let durable = self.store.durable();
        let mut leave = std::mem::take(&mut self.leave);
        let waiting_before = self.held.waiting();
        self.held.release(durable, &mut leave);
        cell.counters.held.add(waiting_before.saturating_sub(self.held.waiting()) as u64);
        let now = Instant::now();
        for (to, reply, kind, begun) in self.answered.drain(..) {
            cell.latencies.record(kind, nanos_of(now.saturating_duration_since(begun)));
            outbox.answer(to, reply);
        }
        for out in leave.drain(..) {
            self.route(out, durable, now, cell, outbox);
        }
        self.leave = leave;
    }

    fn route(&mut self, out: Out, durable: Lsn, now: Instant, cell: &Cell, outbox: &mut Outbox) {
        match out {
            Out::Peer(to, peer) => {
                cell.counters.peers_out.increment();
                outbox.peers.push((to, peer));
            }
            Out::Reply(tag, mut reply) => {
                let Some(pending) = self.pending.remove(tag) else { return };
                reply.durable = durable;
                if matches!(
                    reply.result,
                    Err(Refusal::Redirect(_) | Refusal::AskHome | Refusal::Slot(_))
                ) {
                    cell.counters.redirects.increment();
                }
                let taken = nanos_of(now.saturating_duration_since(pending.begun));
                cell.latencies.record(pending.kind, taken);
                outbox.answer(pending.to, reply);
            }
        }
    }

    fn answer_all_with_eio(&mut self, outbox: &mut Outbox) {
        // These replies show acknowledged changes only, so they are still true.
        self.answered.drain(..).for_each(|(to, reply, ..)| outbox.answer(to, reply));
        self.held.drain().for_each(drop);
        self.leave.clear();
        for pending in self.pending.drain() {
            let reply = self.refuse((pending.id, pending.trace), Errno::EIO);
            outbox.answer(pending.to, reply);
        }
    }

    /// The host stops: ends all waiting calls without a reply.
    pub(crate) fn abandon(&mut self) {
        self.pending.drain().into_iter().for_each(|pending| pending.to.abandon());
        for incoming in self.after_sync.drain(..) {
            if let Incoming::Call { to, .. } = incoming {
                to.abandon();
            }
        }
    }
}

fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The machine cannot go on: the shard stops.
fn halted(halt: &Halt, cell: &Cell) {
    match halt {
        Halt::Broken(reason) | Halt::Unreadable(reason) => cell.fail(reason),
        Halt::NotResident(block) => {
            cell.fail(&format!("block {} is not in memory, though this store reads all", block.0));
        }
    }
}

/// Makes a tag. Only [`PendingCalls`] reads the parts of a tag.
pub(crate) const fn tag(index: u32, generation: u32, key: KeyId) -> ClientTag {
    ClientTag((generation as u64) << 32 | index as u64, key)
}
