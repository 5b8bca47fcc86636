//! Beginning anew after an input that could not be handled to its end. A block of the store could
//! not be read, or the input's writes did not fit on the disk. What the input changed in memory by
//! then is not known. So all soft state is read from the records again, as after a restart. The
//! shell drops the input's writes and messages.
//!
//! ```text
//!   the failed input           result
//!   a client's request         it is refused for good
//!   a vote                     the client's request of that transaction is refused for good
//!   a Prepare, a Page          the answer is No, or "no page": the coordinator gives up
//!   any other peer message     it cannot be refused: its sender repeats it, and it is ignored for a while
//!   the shard's own work       it is dropped; no partition or hash slot begins to move for a while
//! ```
//!
//! What the records do not tell is kept:
//! 1. Numbers. None is used twice, even if the input that took it was dropped.
//! 2. What clients of this process ([`SessionId::is_local`]) have open, and the outcomes of their
//!    requests. These clients have not ended, as they would have with a restart.
//! 3. Requests and messages that wait: their clients do not send them again. Undecided transactions
//!    are undone, and their requests run again.
//! 4. How long clients have not been heard of. Else a shard that begins anew again and again would
//!    let no lease end.
//! 5. Versions of paths, except at shard 0. It begins a new list, as at a start: the old one may
//!    hold a version with a dropped number.
//!
//! Most requests do not need this. They read first, and change nothing until they are done. So they
//! are simply refused.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use pando_types::op::Request;
use pando_types::peer::{Peer, PeerMessage, Vote};
use pando_types::reply::Refusal;
use pando_types::{Errno, SessionId, TxnId};

use crate::contract::{ClientTag, Effects, Halt, Input, Need, Now, Rows, SHARD_0};
use crate::counters::Counters;
use crate::records::keys::{self, Table};
use crate::records::record::Record;
use crate::state::concerned::{Kind, Said};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::txn::transaction::Txn;

/// Time in which no partition or hash slot begins to move after a block could not be read,
/// nanoseconds. A new move would meet the same block.
const QUIET: u64 = 600_000_000_000;
/// Time in which no partition or hash slot begins to move after the disk was full, nanoseconds.
const QUIET_FULL: u64 = 10_000_000_000;
/// Time in which a peer message that cannot be refused is ignored after a block could not be read,
/// nanoseconds.
const DEFER: u64 = 10_000_000_000;
/// Time in which a peer message that cannot be refused is ignored after the disk was full,
/// nanoseconds.
const DEFER_FULL: u64 = 1_000_000_000;

impl Shard {
    /// Notes a peer message that is about to be handled. Returns whether to handle it: not if it
    /// failed a moment ago and is ignored for a while.
    pub(crate) fn hears(&mut self, ctx: &Ctx<'_>, peer: &Peer) -> bool {
        let said = Said::of(peer);
        self.concerned.note_said(said);
        said.kind != Kind::Other || !self.participant.is_deferred(said.at, ctx.now.nanos)
    }

    /// Notes that a transaction, taken out of its table, is about to advance.
    pub(crate) fn acts_on(&mut self, txn: &Txn) {
        self.concerned.note_acted(txn.client());
    }

    /// Lets no partition or hash slot begin to move for a while: the shard's own work met a block
    /// that cannot be read.
    pub(crate) fn keep_still(&mut self, ctx: &Ctx<'_>) {
        self.migration.keep_still(ctx.now.nanos.saturating_add(QUIET));
    }

    /// Begins anew after the last input failed, or after the shell dropped its effects. Requests
    /// that the input concerned are refused with `refuse`. `Err`: the shard must stop.
    pub fn begin_anew(
        &mut self,
        now: Now,
        refuse: Errno,
        rows: &dyn Rows,
    ) -> Result<Effects, Halt> {
        let mut ctx = Ctx::new(now, rows);
        let new = Self::from_records(self.begun_with.clone(), self.numbers, &ctx)?;
        let key = keys::table(Table::Numbers);
        if ctx.load(&key)? != Some(self.numbers.record()) {
            // The record of the last reserved block was dropped with its group.
            ctx.put(key, self.numbers.record().encode());
        }
        let mut old = core::mem::replace(self, new);
        self.keep(&mut old, (&ctx, refuse));
        self.record_readers(&mut ctx)?;
        let (mut refused, said) = core::mem::take(&mut old.concerned).into_parts();
        refused.extend(said.and_then(|said| old.own_request(said)));
        refused.sort_by_key(|(tag, _)| *tag);
        refused.dedup_by_key(|(tag, _)| *tag);
        let tags: BTreeSet<ClientTag> = refused.iter().map(|(tag, _)| *tag).collect();
        self.go_on(&mut ctx, &mut old, &tags);
        for (tag, request) in refused {
            let refusal = Refusal::Errno(refuse);
            self.note_refusal(&request, &refusal);
            self.reply(&mut ctx, tag, &request, Err(refusal), Need::Committed);
        }
        if let Some(said) = said {
            self.refuse_said(&mut ctx, said, refuse);
        }
        Ok(Self::effects(ctx, Some(now.nanos)))
    }

    /// The request of a transaction that asks a step of its own shard.
    fn own_request(&self, said: Said) -> Option<(ClientTag, Arc<Request>)> {
        let is_own = said.from == self.config.shard && said.kind == Kind::Prepare;
        self.coordinator.get(said.at.0.number).filter(|_| is_own)?.client()
    }

    /// Takes over from the old state what the records do not tell.
    fn keep(&mut self, old: &mut Self, (ctx, refuse): (&Ctx<'_>, Errno)) {
        use core::mem::take;
        let begun_anew = old.counters.begun_anew + 1;
        self.counters = Counters { begun_anew, ..old.counters };
        self.sessions.keep(&mut old.sessions, ctx.now.nanos);
        let mut outcomes = take(&mut self.sessions.outcomes);
        outcomes.keep(&mut old.sessions.outcomes, |session| self.session_counts(session));
        self.sessions.outcomes = outcomes;
        let mut opens = take(&mut self.namespace.opens);
        let lives = |session: SessionId| session.is_local() && self.session_lives(session);
        opens.keep_unrecorded(&mut old.namespace.opens, lives);
        self.namespace.opens = opens;
        self.coordinator.keep(&mut old.coordinator);
        self.participant.keep(&mut old.participant);
        self.migration.keep(&mut old.migration);
        self.grants.keep(&mut old.grants);
        self.lock_reads();
        if self.config.shard == SHARD_0 {
            self.begin_versions();
            self.sessions.leases.keep(&old.sessions.leases);
        } else {
            self.paths.keep(&mut old.paths);
        }
        // The input may have been a step of a removal that did not fit.
        let until = ctx.now.nanos.saturating_add(DEFER_FULL);
        self.namespace.shreds.keep(&mut old.namespace.shreds, until);
        let quiet = if refuse == Errno::ENOSPC { QUIET_FULL } else { QUIET };
        self.migration.keep_still(ctx.now.nanos.saturating_add(quiet));
        #[cfg(feature = "planted")]
        {
            self.planted = old.planted;
        }
    }

    /// Lets waiting inputs go on, except requests of the refused tags. Undoes undecided
    /// transactions and queues their requests.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, old: &mut Self, refused: &BTreeSet<ClientTag>) {
        let own = self.config.shard;
        let goes_on = |input: &Input| match input {
            Input::Client(tag, _) => !refused.contains(tag),
            // A message of this shard to itself may rest on dropped changes. It is sent again.
            Input::Peer(peer) => peer.from != own,
            Input::Tick | Input::Ready => true,
        };
        let queue = core::mem::take(&mut old.queue);
        self.queue.keep(queue, old.locks.take_waiting(), goes_on);
        for (number, txn) in core::mem::take(&mut old.coordinator).into_undecided() {
            for (step, to) in txn.asked() {
                let at = (TxnId { shard: own, number }, step);
                self.tell(ctx, Need::Committed, to, at, PeerMessage::Finish(None));
            }
            if let Some((tag, request)) = txn.client().filter(|(tag, _)| !refused.contains(tag)) {
                self.counters.restarts += 1;
                let request = Box::new(Arc::unwrap_or_clone(request));
                self.queue.push(Input::Client(tag, request));
            }
        }
    }

    /// Whether `txn` is a transaction of this shard that was undone.
    fn is_undone(&self, txn: TxnId) -> bool {
        txn.shard == self.config.shard && !self.coordinator.has(txn.number)
    }

    fn refuse_said(&mut self, ctx: &mut Ctx<'_>, said: Said, refuse: Errno) {
        let answer = match said.kind {
            // The transaction is undone here, so no answer is needed.
            _ if said.from == self.config.shard && said.kind != Kind::Other => return,
            Kind::Prepare => PeerMessage::Voted(Vote::No(refuse)),
            Kind::Page => PeerMessage::PageDone(0),
            // The transaction is undone. Every shard that asks about it hears so from now on.
            Kind::Other if self.is_undone(said.at.0) => return,
            Kind::Other => {
                if said.at.0.number > 0 {
                    let wait = if refuse == Errno::ENOSPC { DEFER_FULL } else { DEFER };
                    self.participant.defer(said.at, ctx.now.nanos.saturating_add(wait));
                }
                return;
            }
        };
        self.tell(ctx, Need::Committed, said.from, said.at, answer);
    }
}
