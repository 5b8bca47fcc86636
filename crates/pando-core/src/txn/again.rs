//! The tick of a shard: all that is due. What the coordinator sends again is here.

use pando_types::peer::PeerMessage;

use super::tell::need_of;
use crate::contract::Halt;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::txn::transaction::Txn;

impl Shard {
    /// Does what is due: begins paused requests again, and sends unanswered messages again.
    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        let now = ctx.now.nanos;
        self.coordinator.pin(now, self.config.resend_after, self.numbers.next_txn());
        self.queue.resume_due(now);
        if let Some(until) = now.checked_sub(self.config.resend_after) {
            for number in self.coordinator.take_unanswered(until) {
                self.resend(ctx, number)?;
                // This message is sent: it stays, whatever becomes of the rest of this tick.
                self.concerned.forget_acted();
            }
        }
        self.give_up_votes(ctx)?;
        self.tick_versions(ctx);
        self.tick_copies(ctx)?;
        self.migration.counts.queue_due(now);
        self.end_expired(ctx)?;
        self.tick_sessions(ctx);
        self.ask_coordinators(ctx);
        self.tick_grants(ctx);
        // A step may not fit on the disk. Messages of this tick must not be dropped with it.
        if !self.concerned.has_acted() { self.shred_on(ctx) } else { Ok(()) }
    }

    fn resend(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        let id = self.id(number);
        let Some(again) = self.coordinator.send_again(number, ctx.now.nanos) else {
            return Ok(());
        };
        self.counters.resent += 1;
        for (mut to, step, message) in again {
            if let PeerMessage::Prepare(place, _) = &message {
                let client = self.coordinator.get(number).and_then(Txn::client);
                self.concerned.note_acted(client);
                to = self.shard_of(ctx, place)?;
                self.coordinator.ask_there(number, step, to);
            }
            let need = need_of(&message);
            self.tell(ctx, need, to, (id, step), message);
        }
        Ok(())
    }

    /// The next time at which `tick` has something to do.
    pub(crate) fn next_wake(&mut self) -> Option<u64> {
        let later = self.queue.next_due();
        let resend = self.coordinator.longest_unanswered();
        let resend = resend.map(|at| at + self.config.resend_after);
        let asked = self.participant.longest_unasked().into_iter();
        let heard = self.migration.arrivals.longest_unheard();
        let ask = asked.chain(heard).min().map(|at| at + self.config.ask_after);
        let copies = self.migration.copies.next_due(self.config.resend_after);
        let moves = [copies, self.migration.counts.next_due()];
        let others = [
            later,
            resend,
            ask,
            self.versions_wake(),
            self.sessions.leases.next_look(),
            self.votes_wake(),
            self.grants.next_due(),
        ];
        let moves =
            moves.into_iter().chain([self.namespace.shreds.next_due(), self.sessions_wake()]);
        moves.chain(others).flatten().min()
    }
}
