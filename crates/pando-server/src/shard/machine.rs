//! What the shell runs: a deterministic state machine behind the contract of
//! `pando_core::contract`.
//!
//! It is a trait so that tests can use a machine of a few lines. They test the shell's promises:
//! nothing is lost, and nothing leaves too early.

use pando_core::Count;
use pando_core::contract::{Effects, Halt, Input, Now, Rows};
use pando_placement::ClusterMap;
use pando_types::op::{ObjectId, Request};
use pando_types::reply::Reply;
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

    /// What the machine has counted.
    fn counters(&self) -> Vec<Count>;

    /// Number of inodes, and bytes of their contents. `None`: this machine has no inodes.
    fn size(&self) -> Option<(u64, u64)> {
        None
    }

    /// Number of sessions that live.
    fn sessions(&self) -> u64 {
        0
    }

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

    fn counters(&self) -> Vec<Count> {
        self.counts()
    }

    fn size(&self) -> Option<(u64, u64)> {
        let stat = self.stat();
        Some((stat.inodes, stat.bytes))
    }

    fn sessions(&self) -> u64 {
        self.sessions().count() as u64
    }
}
