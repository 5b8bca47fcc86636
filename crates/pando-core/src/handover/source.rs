//! A handover at the shard that gives a hash slot away. Pages, rounds and closing are those of a
//! split.

use alloc::vec::Vec;
use pando_types::op::Place;
use pando_types::peer::{
    Change, HashSlotArrival, OpenEntry, PeerMessage, Prepare, RowChange, Seen, SessionOpens, Tally,
};
use pando_types::reply::{Body, HashSlotNews};
use pando_types::{DirId, HashSlot, Lsn, TxnId};

use crate::contract::{Halt, Row};
use crate::records::keys::{self, Kind};
use crate::records::record::OpenAt;
use crate::split::source::{Mover, go_on};
use crate::state::ctx::Ctx;
use crate::state::migration::copy::Copy;
use crate::state::migration::hash_slot_rows::{dirs_of, first_partition};
use crate::state::shard::Shard;
use crate::state::stop::{Stop, broken};
use crate::state::txn::plan::Handover;
use crate::state::txn::transaction::StepState;
use crate::txn::plan::view::{Decision, Next, View};

impl Handover {
    pub fn new(hash_slot: HashSlotNews) -> Self {
        Self { hash_slot }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let number = view.txn.number;
        let Some(mut copy) = view.shard.migration.copies.take_out(number) else {
            return Err(broken("a handover has no copy").into());
        };
        let next = match view.votes.0.last() {
            Some(step) if step.state == StepState::Yes => match &step.seen {
                Some(Seen::Arrived(tally)) => return self.decide(view, copy, *tally),
                _ => Err(broken("a hash slot arrived without a count").into()),
            },
            _ => go_on(self, view, &mut copy),
        };
        view.shard.migration.copies.put(number, copy);
        next
    }

    fn decide(&self, view: &mut View<'_, '_>, mut copy: Copy, moved: Tally) -> Result<Next, Stop> {
        let (shard, ctx) = (&mut *view.shard, &mut *view.ctx);
        // A frozen hash slot changes only by a decision that lost its lock with the power. In that
        // case the handover begins anew. Rows of other partitions may change at any time, and do
        // not count.
        while copy.changes() > 0 {
            if !copy.take_changes(ctx, usize::MAX)?.is_empty() && !shard.hash_slot_unlocked() {
                shard.migration.copies.put(view.txn.number, copy);
                return Ok(Next::Restart);
            }
        }
        let hash_slot = self.hash_slot.hash_slot;
        let opens = shard.opens_of_hash_slot(ctx, hash_slot)?;
        for dir in dirs_of(ctx, hash_slot)? {
            shard.drop_home_rows(ctx, dir)?;
        }
        let (from, to) = keys::hash_slot_links(hash_slot);
        ctx.delete_range(from, to);
        shard.forget_locks(ctx, hash_slot);
        for SessionOpens { ino, .. } in opens {
            if let Some(at) = shard.namespace.opens.place(ino) {
                shard.clear_opens(ctx, ino, at);
            }
        }
        ctx.stat.0 -= moved.inodes.cast_signed();
        ctx.add_bytes(moved.bytes.cast_signed().wrapping_neg());
        shard.set_owner(ctx, self.hash_slot);
        shard.migration.note_moved(Lsn(ctx.now.seen.0 + 1));
        shard.counters.handovers += 1;
        shard.queue.resume(shard.locks.release(copy.key(), view.txn));
        let changes = alloc::vec![(view.votes.0.len() - 1, Change::OwnHashSlot(self.hash_slot))];
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body: Body::Done }))
    }

    /// Gives the handover up: the hash slot is open again, and the target drops what it has.
    pub fn abandon(self, shard: &mut Shard, ctx: &mut Ctx<'_>, txn: TxnId) {
        let target = self.hash_slot.owner;
        shard.tell(ctx, crate::Need::Committed, target, (txn, 0), PeerMessage::Finish(None));
        shard.forget_copy(txn);
        shard.counters.handovers_failed += 1;
        shard.pause_target(ctx, target);
    }
}

impl Mover for Handover {
    fn outcomes(&self, shard: &Shard, ctx: &Ctx<'_>) -> Result<Vec<Row>, Halt> {
        let hash_slot = self.hash_slot.hash_slot;
        // This includes outcomes of requests by number, which belong to no name. Any shard that has
        // one answers it alike.
        shard.slots_for(ctx, |at: Option<(DirId, u64)>| {
            at.is_none_or(|(dir, _)| dir.hash_slot() == hash_slot)
        })
    }

    fn page(&self, copy: &Copy, rows: Vec<RowChange>) -> Next {
        let message = PeerMessage::HashSlotPage {
            hash_slot: self.hash_slot,
            number: copy.pages(),
            synced: copy.syncs(),
            rows,
        };
        Next::Send(self.hash_slot.owner, message)
    }

    fn ask(
        &self,
        view: &mut View<'_, '_>,
        copy: &Copy,
        rows: Vec<RowChange>,
    ) -> Result<Next, Stop> {
        let (shard, ctx) = (&mut *view.shard, &*view.ctx);
        let hash_slot = self.hash_slot.hash_slot;
        let arrival = HashSlotArrival {
            hash_slot: self.hash_slot,
            pages: copy.pages(),
            rows,
            tally: Tally::default(),
            opens: shard.opens_of_hash_slot(ctx, hash_slot)?,
            slots: copy.last_outcomes(),
            heard: shard.sessions_heard(),
        };
        Ok(Next::Ask(Place::Shard(self.hash_slot.owner), Prepare::TakeHashSlot(arrival)))
    }
}

impl Shard {
    /// Opens of what belongs to a hash slot.
    fn opens_of_hash_slot(
        &self,
        ctx: &Ctx<'_>,
        hash_slot: HashSlot,
    ) -> Result<Vec<SessionOpens<OpenEntry>>, Halt> {
        let mut opens = Vec::new();
        for open in self.namespace.opens.all() {
            let at = match open.at {
                OpenAt::Link if open.ino.hash_slot() == hash_slot => None,
                OpenAt::Name(dir, order) if dir.hash_slot() == hash_slot => {
                    if first_partition(ctx, dir)?.is_none_or(|orders| !orders.contains(&order)) {
                        continue;
                    }
                    Some((dir, order))
                }
                _ => continue,
            };
            opens.push(SessionOpens {
                ino: open.ino,
                at,
                session: open.session,
                count: open.count,
            });
        }
        Ok(opens)
    }

    /// Drops a directory's home rows: content, and partition 0. Other partitions stay.
    fn drop_home_rows(&mut self, ctx: &mut Ctx<'_>, dir: DirId) -> Result<(), Halt> {
        ctx.delete_range(keys::dir(dir, Kind::Content, 0), keys::dir(dir, Kind::Header, 0));
        if let Some(orders) = first_partition(ctx, dir)? {
            self.clear_range(ctx, dir, &orders);
            ctx.drop_header(dir, 0);
        }
        Ok(())
    }
}
