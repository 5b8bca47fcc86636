//! The part of a shard that holds the transactions that it coordinates.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pando_types::op::Request;
use pando_types::peer::Seen;
use pando_types::{Errno, ShardIndex};

use crate::contract::ClientTag;
use crate::counters::TxnKind;
use crate::state::txn::agenda::Agenda;
use crate::state::txn::deadlines::Deadlines;
use crate::state::txn::graph::Graph;
use crate::state::txn::pinned::Pinned;
use crate::state::txn::silent::Silent;
use crate::state::txn::transaction::{Message, StepState, Txn};

/// Transactions that this shard coordinates.
#[derive(Default)]
pub struct Coordinator {
    /// Transactions that this shard coordinates, by number.
    txns: BTreeMap<u64, Txn>,
    /// When each transaction last sent a message.
    sent: Agenda<u64>,
    /// When each transaction that waits for a vote is given up.
    deadlines: Deadlines,
    /// Transactions of this shard that have been alive for long. Floors name them as exceptions.
    pinned: Pinned,
    /// Shards that did not vote in time.
    pub(crate) silent: Silent,
    /// Moves of directories that have ended; used by shard 0 only.
    pub(crate) graph: Graph,
}

impl Coordinator {
    /// Enters a transaction that has sent nothing since this shard started: it is due at once.
    pub(crate) fn enter(&mut self, number: u64, txn: Txn) {
        self.txns.insert(number, txn);
        self.sent.note(0, number);
    }

    /// A transaction; `None`: it is over, undone, or taken out.
    pub(crate) fn get(&self, number: u64) -> Option<&Txn> {
        self.txns.get(&number)
    }

    /// Whether the transaction is in the table.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.txns.contains_key(&number)
    }

    /// Number of transactions that are not over.
    pub(crate) fn count(&self) -> usize {
        self.txns.len()
    }

    /// Number of transactions that began since the start and are not over, by [`TxnKind`].
    pub(crate) fn count_by_kind(&self) -> [u64; TxnKind::ALL.len()] {
        let mut alive = [0; TxnKind::ALL.len()];
        for kind in self.txns.values().filter_map(Txn::kind) {
            alive[kind as usize] += 1;
        }
        alive
    }

    /// Requests of transactions that are not decided, each with the transaction's number.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.txns.iter().filter_map(|(number, txn)| Some((*number, txn.undecided()?)))
    }

    /// The transactions that are not decided, when the shard begins anew.
    pub(crate) fn into_undecided(self) -> impl Iterator<Item = (u64, Txn)> {
        self.txns.into_iter().filter(|(_, txn)| txn.plan().is_some())
    }

    /// Takes over from `old`, when the shard begins anew, what no record tells: silent shards, and
    /// claims that have ended.
    pub(crate) fn keep(&mut self, old: &mut Self) {
        self.silent = core::mem::take(&mut old.silent);
        self.graph = core::mem::take(&mut old.graph);
    }

    /// Takes a transaction out of the table. The caller acts on it, and puts it back unless it is
    /// over.
    pub(crate) fn take_out(&mut self, number: u64) -> Option<Txn> {
        self.txns.remove(&number)
    }

    /// Puts back a transaction that sends nothing.
    pub(crate) fn put_back(&mut self, number: u64, txn: Txn) {
        self.txns.insert(number, txn);
    }

    /// Puts back a transaction that sends something now. If no answer comes, `message` is sent
    /// again; without one, what the participants must finish is.
    pub(crate) fn put_back_sent(
        &mut self,
        number: u64,
        mut txn: Txn,
        message: Option<Message>,
        now: u64,
    ) {
        txn.note_sent(message, now);
        self.sent.note(now, number);
        self.txns.insert(number, txn);
    }

    /// Sends a transaction's answer to where its client asked again. Returns whether the
    /// transaction is under way.
    pub(crate) fn answer_at(&mut self, number: u64, tag: ClientTag) -> bool {
        let txn = self.txns.get_mut(&number);
        txn.map(|txn| txn.answer_at(tag)).is_some()
    }

    /// Notes the vote for the last step of a transaction. `by` is the participant, if its vote is
    /// yes.
    pub(crate) fn note_yes(&mut self, number: u64, by: ShardIndex, seen: Seen) {
        if let Some(txn) = self.txns.get_mut(&number) {
            txn.voted(StepState::Yes, Some(by), Some(seen));
        }
    }

    /// Notes that the last step of a transaction is refused.
    pub(crate) fn note_no(&mut self, number: u64, errno: Errno, seen: Option<Seen>) {
        if let Some(txn) = self.txns.get_mut(&number) {
            txn.voted(StepState::Refused(errno), None, seen);
        }
    }

    /// Takes the transactions that have sent nothing since `until`, nanoseconds. The caller sends
    /// again for each.
    pub(crate) fn take_unanswered(&mut self, until: u64) -> Vec<u64> {
        let txns = &self.txns;
        self.sent.take_due(until, txns.len(), |number| txns.get(number).map(Txn::sent_at))
    }

    /// When the transaction that has waited longest has last sent something, nanoseconds.
    pub(crate) fn longest_unanswered(&mut self) -> Option<u64> {
        let txns = &self.txns;
        let oldest = self.sent.oldest(txns.len(), |number| txns.get(number).map(Txn::sent_at));
        oldest.map(|(at, _)| at)
    }

    /// The messages of a transaction to send again now, which is noted. `None`: it is over.
    pub(crate) fn send_again(&mut self, number: u64, now: u64) -> Option<Vec<Message>> {
        let txn = self.txns.get_mut(&number)?;
        self.sent.note(now, number);
        Some(txn.send_again(now))
    }

    /// Notes that a step of a transaction is asked of this shard from now on.
    pub(crate) fn ask_there(&mut self, number: u64, step: u16, to: ShardIndex) {
        if let Some(txn) = self.txns.get_mut(&number) {
            txn.ask_there(step, to);
        }
    }

    /// Notes the deadline of a transaction that has just asked for a vote. It stays until the vote
    /// comes.
    pub(crate) fn note_deadline(&mut self, number: u64, votes_wait: u64) {
        let txn = self.txns.get(&number);
        if let Some(at) = txn.and_then(|txn| txn.deadline(votes_wait)) {
            self.deadlines.note(at, number);
        }
    }

    /// Takes the transactions whose deadline has passed, by number.
    pub(crate) fn take_late(&mut self, now: u64, votes_wait: u64) -> Vec<u64> {
        let txns = &self.txns;
        let deadline = |number| txns.get(&number).and_then(|txn| txn.deadline(votes_wait));
        self.deadlines.take_due(now, txns.len(), deadline)
    }

    /// The next time at which a transaction is given up, nanoseconds.
    pub(crate) fn next_deadline(&mut self, votes_wait: u64) -> Option<u64> {
        let txns = &self.txns;
        let deadline = |number| txns.get(&number).and_then(|txn| txn.deadline(votes_wait));
        self.deadlines.next(txns.len(), deadline).map(|(at, _)| at)
    }

    /// Pins the transactions that were alive at the last look, if that was `every` nanoseconds ago.
    /// `next` is the number of the next transaction.
    pub(crate) fn pin(&mut self, now: u64, every: u64, next: u64) {
        let txns = &self.txns;
        self.pinned.look(now, every, next, |first| txns.range(..first).map(|(number, _)| *number));
    }

    /// Transactions that have been alive for long, ascending.
    pub(crate) fn pinned(&self) -> &[u64] {
        self.pinned.numbers()
    }

    /// The lowest transaction from a number on that is not over.
    pub(crate) fn first_from(&self, number: u64) -> Option<u64> {
        self.txns.range(number..).next().map(|(number, _)| *number)
    }
}
