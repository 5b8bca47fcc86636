//! A batch: the inputs that a shard handles together.
//!
//! One call of [`State::run`] is one batch. It handles every input at hand, writes the log once,
//! then releases the messages that may leave.

use std::sync::atomic::Ordering;
use std::time::Instant;

use pando_core::contract::{ClientTag, Halt, Input, Now};
use pando_types::Errno;
use pando_types::op::Request;

use crate::calls::brake::may_wait;
use crate::calls::incoming::Incoming;
use crate::calls::objects::{names_objects, request_names_objects};
use crate::calls::outbox::Outbox;
use crate::calls::pending::Pending;
use crate::calls::reply_to::ReplyTo;
use crate::calls::wants::{Wants, wants};
use crate::common::metrics::OpKind;
#[cfg(feature = "planted")]
use crate::common::planted::Planted;
use crate::shard::cell::Cell;
use crate::shard::full_disk::{RETRY_FULL_NANOS, Reserved};
use crate::shard::read::halted;
use crate::shard::state::{Answered, Moment, State};
use crate::shard::timer::Timer;
use crate::store::error::Room;

impl State {
    /// Whether [`State::run`] can run a request at once. Otherwise the request goes into the inbox.
    pub(crate) fn can_run_at_once(&self, request: &Request, cell: &Cell) -> bool {
        // The thread that thaws the shard runs its inbox. So does the syncer when its sync ends.
        let must_wait = request_names_objects(request) && cell.is_syncing.load(Ordering::SeqCst);
        !self.leaving.is_frozen() && !must_wait
    }

    /// Handles all inputs at hand as one batch, and after them the caller's `own` request, which
    /// [can be run at once](State::can_run_at_once). Returns the tag of `own`, unless `own` was
    /// answered from the records at once.
    pub(crate) fn run(
        &mut self,
        cell: &Cell,
        timer: &Timer,
        outbox: &mut Outbox,
        own: Option<(Box<Request>, Instant)>,
    ) -> Option<ClientTag> {
        if self.leaving.is_frozen() {
            // The thread that thaws the shard runs it.
            return None;
        }
        cell.counters.batches.increment();
        self.moment = Moment::default();
        self.finish_files(cell, timer, outbox);
        self.ready(cell, timer);
        if cell.take_tick() {
            self.input(Input::Tick, cell, timer);
        }
        std::mem::swap(&mut self.inbox, &mut *cell.inbox.lock());
        let mut inbox = std::mem::take(&mut self.inbox);
        let is_syncing = || cell.is_syncing.load(Ordering::SeqCst);
        if !is_syncing() {
            for incoming in std::mem::take(&mut self.after_sync) {
                self.accept(incoming, cell, timer);
            }
        }
        self.resume(cell, timer, outbox);
        for incoming in inbox.drain(..) {
            if names_objects(&incoming) && is_syncing() {
                // The syncer runs the shard when its sync ends.
                cell.counters.waited_for_sync.increment();
                self.after_sync.push(incoming);
            } else {
                self.accept(incoming, cell, timer);
            }
        }
        self.inbox = inbox;
        let own = own
            .and_then(|(request, begun)| self.call(ReplyTo::Runner, request, begun, cell, timer));
        self.write(cell, outbox);
        self.begin_checkpoint(cell, timer, outbox);
        self.begin_merge(cell, outbox);
        self.plan_resume(cell, timer);
        let wake_at = self.wake_at.take();
        #[cfg(feature = "planted")]
        let wake_at = wake_at.filter(|_| self.planted != Some(Planted::NoTicks));
        if let Some(at) = wake_at {
            timer.tick_at(cell, at);
        }
        if std::mem::take(&mut self.wants_sync) {
            cell.sync.request();
        }
        own
    }

    pub(crate) fn accept(&mut self, incoming: Incoming, cell: &Cell, timer: &Timer) {
        match incoming {
            Incoming::Peer(peer) => {
                cell.counters.peers_in.increment();
                self.input(Input::Peer(peer), cell, timer);
            }
            Incoming::Call { to, request, begun } => {
                self.call(to, request, begun, cell, timer);
            }
            Incoming::Judged { tag, request } => self.run_judged(tag, request, cell, timer),
        }
    }

    /// Runs a request that has waited, unless another copy of it was answered meanwhile.
    pub(crate) fn run_judged(
        &mut self,
        tag: ClientTag,
        request: Box<Request>,
        cell: &Cell,
        timer: &Timer,
    ) {
        if self.pending.has(tag) {
            self.input(Input::Client(tag, request), cell, timer);
        }
    }

    /// The request's tag, or `None` if it was answered at once.
    pub(crate) fn call(
        &mut self,
        to: ReplyTo,
        request: Box<Request>,
        begun: Instant,
        cell: &Cell,
        timer: &Timer,
    ) -> Option<ClientTag> {
        cell.counters.requests.increment();
        if let Some(reply) = self.read(cell, timer, to.key(), &request) {
            let kind = OpKind::of(&request.op);
            self.answered.push(Answered { to, reply, kind, begun });
            // This read may have been the first to find a partition that should merge.
            self.ready(cell, timer);
            return None;
        }
        let tag = self.pending.insert(Pending::new(to, &request, begun));
        if self.brake.left == 0 && may_wait(&request.op) {
            self.judge(tag, request, cell, timer);
        } else {
            self.input(Input::Client(tag, request), cell, timer);
        }
        Some(tag)
    }

    pub(crate) fn input(&mut self, input: Input, cell: &Cell, timer: &Timer) {
        if cell.has_failed() {
            // The shard has stopped: it ignores peer messages and ticks. `write` answers clients.
            return;
        }
        let wants = wants(&input);
        let room = match self.room(wants, timer) {
            Ok(is_full) => Reserved { is_full, is_spent: false, of: wants },
            Err(Room::Failed(reason)) => return cell.fail(&reason),
            // Only the machine knows whether the request has run before. If it has, the machine
            // answers it as it did then.
            Err(_) if matches!(input, Input::Client(..)) => {
                self.note_full(cell);
                Reserved { is_full: true, is_spent: true, of: Wants::Nothing }
            }
            Err(_) => return self.no_room(&input, cell, timer),
        };
        self.handle(input, room, cell, timer);
        self.ready(cell, timer);
    }

    /// Runs pending requests that have become ready, as far as the disk has room.
    pub(crate) fn ready(&mut self, cell: &Cell, timer: &Timer) {
        while !cell.has_failed() && self.machine.has_ready() {
            let wants = wants(&Input::Ready);
            match self.room(wants, timer) {
                Ok(is_full) => {
                    let room = Reserved { is_full, is_spent: false, of: wants };
                    self.handle(Input::Ready, room, cell, timer);
                }
                Err(Room::Failed(reason)) => return cell.fail(&reason),
                Err(_) => return self.wake_soon(timer.clock.mono() + RETRY_FULL_NANOS),
            }
        }
    }

    pub(crate) fn handle(&mut self, input: Input, room: Reserved, cell: &Cell, timer: &Timer) {
        cell.counters.inputs.increment();
        self.settle();
        let Reserved { is_full, is_spent, .. } = room;
        let now = Now { is_full, is_spent, ..self.now(timer, cell) };
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
    pub(crate) fn begin_anew(&mut self, now: Now, refuse: Errno, why: &str, cell: &Cell) {
        match self.machine.begin_anew(now, refuse, &self.store) {
            Ok(effects) => self.absorb(effects, cell),
            Err(_) => cell.fail(why),
        }
    }
}
