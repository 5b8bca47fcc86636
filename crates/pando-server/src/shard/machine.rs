//! What the shell runs: a deterministic state machine behind the contract of
//! `pando_core::contract`.
//!
//! It is a trait so that tests can use a machine of a few lines. They test the shell's promises:
//! nothing is lost, and nothing leaves too early.

use pando_core::contract::{Effects, Halt, Input, Now, Rows};
use pando_placement::ClusterMap;
use pando_types::op::{ObjectId, Request};
use pando_types::reply::{Improper, Reply};
use pando_types::watch::{Settled, Watching};
use pando_types::{Errno, KeyId};

/// A shard, as the shell sees it.
pub trait Machine: Send {
    /// Handles one input. `Err`: see [`Halt`].
    fn handle(&mut self, now: Now, input: Input, rows: &dyn Rows) -> Result<Effects, Halt>;

    /// Makes the machine's memory from its records again. The last input met [`Halt::Unreadable`],
    /// or its effects were dropped. A client that sent it is refused with `refuse`, and all other
    /// requests go on. `Err`: the machine cannot go on.
    fn begin_anew(&mut self, _now: Now, _refuse: Errno, _rows: &dyn Rows) -> Result<Effects, Halt> {
        Err(Halt::Broken("this machine does not begin anew".to_owned()))
    }

    /// Answers a request without effects, if it only reads and need not wait. `None`: it must be
    /// handled. The reply may leave once all groups applied before are acknowledged.
    fn answer_at_once(
        &mut self,
        _now: Now,
        _key: KeyId,
        _request: &Request,
        _rows: &dyn Rows,
    ) -> Result<Option<Box<Reply>>, Halt> {
        Ok(None)
    }

    /// Whether a pending request may go on: the shell then calls `handle` with [`Input::Ready`].
    fn has_ready(&self) -> bool;

    /// Counters by name, for `pando status`.
    fn counters(&self) -> Vec<(String, u64)>;

    /// The owners of hash slots, as far as the machine knows. `None`: this machine has no map.
    fn map(&self) -> Option<&ClusterMap> {
        None
    }

    /// Begins to note the objects that files come to name, for the collection `id`. `None`: the
    /// machine cannot do so now.
    fn watch(&mut self, _id: u64) -> Option<Watching> {
        None
    }

    /// The objects that were noted for the collection `id`, beginning at `first`.
    fn settle_watch(&mut self, _id: u64, _first: ObjectId) -> Settled {
        Settled::Forgotten
    }
}

impl Machine for pando_core::Shard {
    fn handle(&mut self, now: Now, input: Input, rows: &dyn Rows) -> Result<Effects, Halt> {
        self.handle(now, input, rows)
    }

    fn begin_anew(&mut self, now: Now, refuse: Errno, rows: &dyn Rows) -> Result<Effects, Halt> {
        self.begin_anew(now, refuse, rows)
    }

    fn answer_at_once(
        &mut self,
        now: Now,
        key: KeyId,
        request: &Request,
        rows: &dyn Rows,
    ) -> Result<Option<Box<Reply>>, Halt> {
        self.answer_at_once(now, key, request, rows)
    }

    fn has_ready(&self) -> bool {
        self.has_ready()
    }

    fn map(&self) -> Option<&ClusterMap> {
        Some(self.map())
    }

    fn watch(&mut self, id: u64) -> Option<Watching> {
        self.watch(id)
    }

    fn settle_watch(&mut self, id: u64, first: ObjectId) -> Settled {
        self.settle_watch(id, first)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.counters();
        let mut list: Vec<(String, u64)> = [
            ("requests", counters.requests),
            ("repeated", counters.repeated),
            ("redirected", counters.redirected),
            ("waited", counters.waited),
            ("foreign_sessions", counters.foreign_sessions),
            ("bad_messages", counters.bad_messages),
            ("restarts", counters.restarts),
            ("claims", counters.claims),
            ("claims_together", counters.claims_together),
            ("claims_alone", counters.claims_alone),
            ("walks_overtaken", counters.walks_overtaken),
            ("splits_local", counters.splits_local),
            ("splits_moved", counters.splits_moved),
            ("entries_moved", counters.entries_moved),
            ("splits_yielded", counters.splits_yielded),
            ("splits_failed", counters.splits_failed),
            ("splits_awaiting", counters.splits_awaiting),
            ("splits_reopened", counters.splits_reopened),
            ("splits_overtaken", counters.splits_overtaken),
            ("merges_local", counters.merges_local),
            ("merges_moved", counters.merges_moved),
            ("entries_given_back", counters.entries_given_back),
            ("merges_yielded", counters.merges_yielded),
            ("merges_failed", counters.merges_failed),
            ("merges_refused", counters.merges_refused),
            ("split_pages", counters.split_pages),
            ("split_rounds", counters.split_rounds),
            ("split_rows_again", counters.split_rows_again),
            ("split_rows_frozen", counters.split_rows_frozen),
            ("handovers", counters.handovers),
            ("handovers_failed", counters.handovers_failed),
            ("readdressed", counters.readdressed),
            ("resent", counters.resent),
            ("recovered_decided", counters.recovered_decided),
            ("recovered_prepared", counters.recovered_prepared),
            ("recovered_arrivals", counters.recovered_arrivals),
            ("parts_lent", counters.lent),
            ("parts_recalled", counters.recalls),
            ("parts_returned", counters.returned),
            ("parts_fenced", counters.fenced),
            ("elements", counters.elements),
            ("elements_refused", counters.elements_refused),
            ("begun_anew", counters.begun_anew),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
        for improper in Improper::ALL {
            let count = counters.improper[improper as usize];
            list.push((format!("improper_{}", improper.name()), count));
        }
        let alive = self.txns_alive();
        for kind in pando_core::TxnKind::ALL {
            for (what, counts) in [
                ("begun", &counters.txns_begun),
                ("committed", &counters.txns_committed),
                ("remote", &counters.txns_remote),
                ("alive", &alive),
            ] {
                list.push((format!("{}_{what}", kind.name()), counts[kind as usize]));
            }
        }
        list
    }
}
