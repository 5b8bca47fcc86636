//! Requests that a shard answers from its records, without effects.

use std::time::Instant;

use pando_core::contract::{Halt, Now};
use pando_types::op::Request;
use pando_types::reply::Reply;
use pando_types::{Errno, KeyId};

use crate::common::clock::nanos_of;
use crate::common::metrics::OpKind;
use crate::common::options::Durability;
use crate::shard::cell::Cell;
use crate::shard::state::{Moment, State};
use crate::shard::timer::Timer;

impl State {
    /// The reply to a caller of this process, if the request only reads, and sees nothing that is
    /// not acknowledged. `None`: [`State::run`] must run it.
    pub(crate) fn answer_at_once(
        &mut self,
        cell: &Cell,
        timer: &Timer,
        request: &Request,
        begun: Instant,
    ) -> Option<Box<Reply>> {
        self.moment = Moment::default();
        let reply = self.read(cell, timer, KeyId::OWNER, request)?;
        cell.counters.requests.increment();
        cell.latencies.record(OpKind::of(&request.op), nanos_of(begun.elapsed()));
        Some(reply)
    }

    pub(crate) fn read(
        &mut self,
        cell: &Cell,
        timer: &Timer,
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
        let now = self.now(timer, cell);
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

    pub(crate) fn now(&mut self, timer: &Timer, cell: &Cell) -> Now {
        let (nanos, wall) = self.moment.read(&timer.clock, &mut self.wall);
        let (seen, durable) = (self.store.applied(), self.store.durable());
        Now { nanos, wall, epoch: cell.epoch, seen, durable, is_full: false, is_spent: false }
    }
}

/// The machine cannot go on: the shard stops.
pub(crate) fn halted(halt: &Halt, cell: &Cell) {
    let (Halt::Broken(reason) | Halt::Unreadable(reason)) = halt;
    cell.fail(reason);
}
