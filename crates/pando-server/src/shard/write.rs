//! The effects of an input go into the log's buffer. At the end of a batch the buffer is written,
//! and the messages that may leave go out. After a failure, all pending requests are refused.

use std::time::Instant;

use pando_core::contract::{Effects, Out};
use pando_types::op::RequestId;
use pando_types::reply::{Refusal, Reply};
use pando_types::{Errno, Lsn};

use crate::calls::outbox::Outbox;
use crate::common::clock::nanos_of;
use crate::shard::cell::Cell;
use crate::shard::state::{Answered, State};

impl State {
    /// Takes the effects of the shard's recovery.
    pub(crate) fn absorb_recovery(&mut self, effects: Effects, cell: &Cell) {
        self.absorb(effects, cell);
    }

    pub(crate) fn absorb(&mut self, effects: Effects, cell: &Cell) {
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

    pub(crate) fn wake_soon(&mut self, at: u64) {
        self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at)));
    }

    pub(crate) fn refuse(&self, (id, trace): (RequestId, u64), errno: Errno) -> Box<Reply> {
        Box::new(Reply {
            id,
            trace,
            shard: self.shard,
            epoch: self.store.epoch(),
            durable: self.store.durable(),
            seen: Lsn(0),
            version: 0,
            clock: 0,
            result: Err(Refusal::Errno(errno)),
            news: None,
            amendment: None,
        })
    }

    pub(crate) fn write(&mut self, cell: &Cell, outbox: &mut Outbox) {
        if self.store.unreadable() > self.unreadable_told {
            for what in self.store.unreadable_blocks().skip(self.unreadable_told) {
                cell.complain(&format!("requests that need this get EIO: {what}"));
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
        for Answered { to, reply, kind, begun } in self.answered.drain(..) {
            cell.latencies.record(kind, nanos_of(now.saturating_duration_since(begun)));
            outbox.answer(to, reply);
        }
        for out in leave.drain(..) {
            self.route(out, durable, now, cell, outbox);
        }
        self.leave = leave;
    }

    pub(crate) fn route(
        &mut self,
        out: Out,
        durable: Lsn,
        now: Instant,
        cell: &Cell,
        outbox: &mut Outbox,
    ) {
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
                    Err(Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_))
                ) {
                    cell.counters.redirects.increment();
                }
                let taken = nanos_of(now.saturating_duration_since(pending.begun));
                cell.latencies.record(pending.kind, taken);
                outbox.answer(pending.to, reply);
            }
        }
    }

    pub(crate) fn answer_all_with_eio(&mut self, outbox: &mut Outbox) {
        // These replies show acknowledged changes only, so they are still true.
        self.answered.drain(..).for_each(|it| outbox.answer(it.to, it.reply));
        self.held.drain().for_each(drop);
        self.leave.clear();
        self.brake.parked.clear();
        for pending in self.pending.drain() {
            let reply = self.refuse((pending.id, pending.trace), Errno::EIO);
            outbox.answer(pending.to, reply);
        }
    }
}
