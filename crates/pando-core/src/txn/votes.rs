//! Votes: what the coordinator does when one comes. A participant may also send a step elsewhere.

use pando_types::op::Place;
use pando_types::peer::{PeerMessage, Seen, Vote};
use pando_types::{DirRef, Errno, ShardIndex};

use crate::contract::{Halt, Need};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::txn::soundness;

impl Shard {
    pub(super) fn voted(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        step: u16,
        from: ShardIndex,
        vote: Vote,
    ) -> Result<(), Halt> {
        let Some(txn) = self.coordinator.get(number) else {
            // The transaction was undone, or is long over: the participant may release its locks.
            let id = self.id(number);
            self.tell(ctx, Need::Committed, from, (id, step), PeerMessage::Finish(None));
            return Ok(());
        };
        let (Some(plan), Some(at)) = (txn.plan(), txn.awaited(step)) else { return Ok(()) };
        let vote = match vote {
            Vote::Yes(seen) if !soundness::answers(&at.prepare, &seen) => {
                self.counters.bad_messages += 1;
                Vote::No(Errno::EIO)
            }
            vote => vote,
        };
        match vote {
            Vote::Yes(seen) => {
                self.coordinator.note_yes(number, from, seen);
                self.advance(ctx, number)
            }
            Vote::No(errno) if plan.goes_on(&at.prepare, errno) => {
                self.coordinator.note_no(number, errno, None);
                self.advance(ctx, number)
            }
            Vote::No(errno) => {
                let again = plan.begins_again(&at.prepare, errno);
                let refusal = (!again).then(|| plan.refusal(&at.prepare, errno));
                self.coordinator.note_no(number, errno, None);
                self.undo(ctx, number, refusal)
            }
            Vote::Overtaken(since) => {
                self.coordinator.note_no(number, Errno::EAGAIN, Some(Seen::Position(since)));
                self.advance(ctx, number)
            }
            Vote::Busy => {
                self.coordinator.note_no(number, Errno::EBUSY, None);
                self.undo(ctx, number, None)
            }
            Vote::Redirect(_) | Vote::HashSlot(_) | Vote::AskHome => {
                let dir = match at.place {
                    Place::Order(dir, _) => Some(dir),
                    _ => None,
                };
                self.sent_elsewhere(ctx, number, from, dir, vote)
            }
        }
    }

    /// Follows a participant that sends the last step to another shard. `dir`: the directory of the
    /// step's name or partition.
    fn sent_elsewhere(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        from: ShardIndex,
        dir: Option<DirRef>,
        vote: Vote,
    ) -> Result<(), Halt> {
        match (vote, dir) {
            (Vote::Redirect(history), Some(dir)) => {
                self.namespace.dirs.learn(dir.id, &history);
                self.ask_again(ctx, number, from, None)
            }
            (Vote::HashSlot(news), dir) => {
                let is_news = self.hear_of_hash_slot(news);
                match dir {
                    // This was known already. So the step asked there for a partition, and the home
                    // knows where that is.
                    Some(dir) if !is_news => self.ask_its_home(ctx, number, from, dir),
                    _ => self.ask_again(ctx, number, from, None),
                }
            }
            (Vote::AskHome, Some(dir)) => self.ask_its_home(ctx, number, from, dir),
            _ => Ok(()),
        }
    }

    /// Sends the last step to the home of its directory. This shard's knowledge of the partitions
    /// is dropped: it may be of another life of the directory's id.
    fn ask_its_home(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        refused_by: ShardIndex,
        dir: DirRef,
    ) -> Result<(), Halt> {
        self.namespace.dirs.unlearn(dir.id);
        let home = self.config.map.home(dir.id);
        self.ask_again(ctx, number, refused_by, Some(home))
    }

    /// Sends the last step to the owner as it is known now. If that is the shard that just refused,
    /// the step is sent after a while.
    fn ask_again(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        refused_by: ShardIndex,
        home: Option<ShardIndex>,
    ) -> Result<(), Halt> {
        let Some(mut txn) = self.coordinator.take_out(number) else { return Ok(()) };
        self.acts_on(&txn);
        let to = match (home, txn.steps().last()) {
            (Some(home), _) => home,
            (None, Some(last)) => self.shard_of(ctx, &last.place)?,
            (None, None) => refused_by,
        };
        let Some((message, is_at_once)) = txn.send_on(to) else {
            self.coordinator.put_back(number, txn);
            return Ok(());
        };
        if to != refused_by && is_at_once {
            let (to, step, message) = message;
            self.say(ctx, number, txn, to, step, message);
        } else {
            self.coordinator.put_back_sent(number, txn, Some(message), ctx.now.nanos);
        }
        Ok(())
    }
}
