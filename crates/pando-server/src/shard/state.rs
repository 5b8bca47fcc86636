//! The state of a shard: its machine, its store, and the calls and messages that wait. A thread
//! that holds the shard holds this.

use std::sync::Arc;
use std::time::Instant;

use pando_core::contract::{ClientTag, Out, Write};
use pando_types::ShardIndex;
use pando_types::reply::Reply;

use crate::calls::brake;
use crate::calls::held::Held;
use crate::calls::incoming::Incoming;
use crate::calls::parked::Brake;
use crate::calls::pending::PendingCalls;
use crate::calls::reply_cell::ReplyCell;
use crate::calls::reply_to::ReplyTo;
use crate::clock::Clock;
use crate::common::clock::Wall;
use crate::common::metrics::OpKind;
use crate::common::options::Durability;
use crate::shard::leaving::Leaving;
use crate::shard::machine::Machine;
use crate::store::records::Store;

#[cfg(feature = "planted")]
pub use crate::common::planted::Planted;

/// A reply to a read.
pub(crate) struct Answered {
    pub(crate) to: ReplyTo,
    pub(crate) reply: Box<Reply>,
    pub(crate) kind: OpKind,
    /// When the request arrived.
    pub(crate) begun: Instant,
}

pub(crate) struct State {
    pub(crate) shard: ShardIndex,
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) store: Store,
    pub(crate) durability: Durability,
    pub(crate) pending: PendingCalls,
    pub(crate) held: Held,
    pub(crate) leave: Vec<Out>,
    /// Replies to reads. They wait for nothing.
    pub(crate) answered: Vec<Answered>,
    /// Writes that were applied. They are dropped later, when no caller waits.
    pub(crate) spent: Vec<Write>,
    pub(crate) inbox: Vec<Incoming>,
    /// Inputs that must wait until the current sync is over.
    pub(crate) after_sync: Vec<Incoming>,
    pub(crate) checkpoint_bytes: usize,
    pub(crate) brake: Brake,
    pub(crate) is_checkpointing: bool,
    pub(crate) is_merging: bool,
    /// The next batch looks whether a merge is due.
    pub(crate) wants_merge: bool,
    /// The next batch begins a checkpoint: the disk is full, or a driver asks for it.
    pub(crate) wants_checkpoint: bool,
    /// When the store last found the disk full, by the clock of timers. `None`: there was room the
    /// last time.
    pub(crate) full_at: Option<u64>,
    /// Number of unreadable blocks that the process has complained of.
    pub(crate) unreadable_told: usize,
    /// When a checkpoint last failed, by the clock of timers.
    pub(crate) last_refusal: Option<u64>,
    /// The log says already that a checkpoint failed because the disk is full.
    pub(crate) is_full_told: bool,
    /// A held message waits for a sync that has to begin now.
    pub(crate) wants_sync: bool,
    pub(crate) wake_at: Option<u64>,
    pub(crate) moment: Moment,
    pub(crate) wall: Wall,
    pub(crate) leaving: Leaving,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<Planted>,
}

/// A reading of both clocks. It serves a few inputs, which are handled within microseconds.
#[derive(Default)]
pub(crate) struct Moment {
    pub(crate) nanos: u64,
    wall: u64,
    uses: u32,
}

impl Moment {
    const USES: u32 = 16;

    /// The clock of timers and the time of day, both in nanoseconds.
    pub(crate) fn read(&mut self, clock: &Clock, wall: &mut Wall) -> (u64, u64) {
        if self.uses == 0 {
            let (nanos, wall) = (clock.mono(), wall.at(clock.wall()));
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
            brake: Brake::new(brake::limit(checkpoint_bytes)),
            is_checkpointing: false,
            is_merging: false,
            wants_merge: true,
            wants_checkpoint: false,
            full_at: None,
            unreadable_told: 0,
            last_refusal: None,
            is_full_told: false,
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

    /// The caller that runs the shard releases it before its request is answered. The reply will go
    /// to this reply cell.
    pub(crate) fn leave_at(&mut self, tag: ClientTag, cell: &Arc<ReplyCell>) {
        self.pending.send_to(tag, ReplyTo::Cell(cell.clone()));
    }

    /// The host stops: ends all waiting calls without a reply.
    pub(crate) fn abandon(&mut self) {
        self.pending.drain().into_iter().for_each(|pending| pending.to.abandon());
        self.brake.parked.clear();
        for incoming in self.after_sync.drain(..) {
            if let Incoming::Call { to, .. } = incoming {
                to.abandon();
            }
        }
    }
}
