//! Runs a shard on the thread that takes it, and delivers what leaves the shard.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use pando_types::ShardIndex;
use pando_types::peer::PeerMessage;

use crate::calls::incoming::Incoming;
use crate::calls::outbox::Outbox;
use crate::host::shared::Shared;
use crate::shard::cell::Cell;
use crate::shard::state::State;

/// Batches that a thread runs of one shard before it leaves the shard to the timer's thread.
const ROUNDS_MAX: u32 = 64;

impl Shared {
    /// Runs the shard, and the shards that it sends messages to, unless other threads hold them.
    pub(crate) fn run(&self, shard: ShardIndex) {
        self.run_all(vec![shard], Outbox::default());
    }

    /// Calls `what` while this thread alone holds the shard. Then runs the shard, whatever the
    /// result: other threads may have put requests into the inbox meanwhile.
    pub(crate) fn with<R>(&self, cell: &Cell, what: impl FnOnce(&mut State) -> R) -> R {
        let done = what(&mut cell.lock());
        fence(Ordering::SeqCst);
        self.run(cell.shard);
        done
    }

    pub(crate) fn run_all(&self, mut work: Vec<ShardIndex>, mut outbox: Outbox) {
        while let Some(shard) = work.pop() {
            let Some(cell) = self.cell(shard) else { continue };
            let mut rounds = 0;
            while cell.attention.load(Ordering::SeqCst) {
                if rounds == ROUNDS_MAX {
                    self.timer.hand_over(shard);
                    break;
                }
                fence(Ordering::SeqCst);
                let Some(mut state) = cell.try_lock() else { break };
                cell.attention.store(false, Ordering::SeqCst);
                state.run(&cell, &self.timer, &mut outbox, None);
                drop(state);
                fence(Ordering::SeqCst);
                self.deliver(&cell, &mut outbox, &mut work);
                // The answers have left. Now puts the last group into the trees.
                cell.settle();
                rounds += 1;
            }
        }
    }

    pub(crate) fn deliver(
        &self,
        from: &Arc<Cell>,
        outbox: &mut Outbox,
        work: &mut Vec<ShardIndex>,
    ) {
        // Messages to other shards leave first. A reply may send its client to another shard, and
        // the client must not arrive there before the message that prepares that shard.
        let mut is_said_afar = false;
        for (to, peer) in outbox.peers.drain(..) {
            let Some(cell) = self.cell(to) else {
                if let Some(links) = self.links.get() {
                    links.send(to, &peer);
                    is_said_afar = true;
                }
                continue;
            };
            let is_for_later = is_copying(&peer.message);
            cell.push(Incoming::Peer(peer));
            if is_for_later {
                self.timer.hand_over(to);
            } else if to != from.shard && !work.contains(&to) {
                work.push(to);
            }
        }
        if let Some(links) = self.links.get().filter(|_| is_said_afar) {
            links.flush();
        }
        for (to, reply) in outbox.replies.drain(..) {
            to.answer(reply, &mut outbox.sinks);
        }
        outbox.sinks.drain(..).for_each(|sink| sink.flush());
        for job in outbox.jobs.drain(..) {
            if let Some(jobs) = &*self.jobs.lock() {
                // The receiver ends only after `stop` has taken the sender.
                let _ = jobs.send((from.clone(), job));
            }
        }
        let freed = outbox.retired.len() as u64;
        for retired in outbox.retired.drain(..) {
            if let Err(error) = retired.remove() {
                from.complain(&format!("old files stay until the next start: {error}"));
            }
        }
        if freed > 0 {
            from.freeing.fetch_sub(freed, Ordering::SeqCst);
            if from.wants_freed.swap(false, Ordering::SeqCst) {
                from.attention.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Runs a shard that was just recovered, beginning with a tick: it sends the messages that its
    /// recovery calls for.
    pub(crate) fn wake(&self, shard: ShardIndex) {
        if let Some(cell) = self.cell(shard) {
            cell.set_tick();
            self.run(shard);
        }
    }
}

/// Whether a message is about rows that are copied while their names stay in use. No caller waits
/// for these, least of all the one that made a partition large enough to split. So the timer's
/// thread runs them, unless another thread takes the shard first.
const fn is_copying(message: &PeerMessage) -> bool {
    matches!(
        message,
        PeerMessage::Page { .. } | PeerMessage::HashSlotPage { .. } | PeerMessage::PageDone(_)
    )
}
