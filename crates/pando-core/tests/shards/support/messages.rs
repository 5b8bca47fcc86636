//! Messages between shards, and time: nothing arrives and no timer fires but as a test says.

use pando_core::{Effects, Input, Need, Now, Out, Write};
use pando_types::peer::{Peer, PeerMessage};
use pando_types::{Epoch, Lsn, ShardIndex, TxnId, codec};

use super::{Cluster, Message};

/// By this much the time of day is ahead of the clock of timers. A timer that went by the time of
/// day would never fire.
const AHEAD: u64 = 1 << 60;

/// Longest delay of a timer that fires at once, nanoseconds. A split that counts its half has such
/// timers.
const SOON: u64 = 100_000;

/// What becomes of messages about versions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    Delivered,
    Held,
}

impl Cluster {
    /// The time of a shard whose time of day is not ahead.
    pub fn now(&self) -> Now {
        Now {
            nanos: self.nanos,
            wall: AHEAD + self.nanos,
            epoch: Epoch(self.epoch),
            seen: Lsn(0),
            durable: Lsn(0),
            is_full: self.is_full,
            is_spent: self.is_spent,
        }
    }

    /// Gives a shard one input, and those that follow from it at once.
    pub(super) fn input(&mut self, shard: ShardIndex, input: Input) {
        self.nanos += 1000;
        let mut now = self.now();
        now.wall += self.ahead.get(&shard).copied().unwrap_or(0);
        let index = usize::from(shard.0);
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let (core, store) = &mut self.shards[index];
            if let Some(log) = self.logs.get(index) {
                (now.seen, now.durable) = (Lsn(log.seen), Lsn(log.durable));
            }
            let handled = self.faults.handle(core, (now, input), store);
            let Effects { writes, out, wake_at, .. } = handled.unwrap();
            self.last_wake = wake_at;
            let bytes = writes.iter().map(|write| match write {
                Write::Put(a, b) | Write::DeleteRange(a, b) => a.len() + b.len(),
                Write::Delete(key) => key.len(),
            });
            let bytes: usize = bytes.sum();
            assert!(bytes <= self.write_max, "{bytes} bytes are written at once");
            if let (Some(log), false) = (self.logs.get_mut(index), writes.is_empty()) {
                log.seen += 1;
            }
            store.apply(writes);
            let bad = core.counters().bad_messages;
            assert!(self.expects_bad || bad == 0, "refused what is sound");
            next = core.has_ready().then_some(Input::Ready);
            for (need, out) in out {
                match out {
                    Out::Reply(tag, reply) => {
                        self.last_need = Some(need);
                        self.replies.insert(tag.0, *reply);
                    }
                    Out::Peer(to, peer) => self.transmit(shard, need, (to, peer)),
                }
            }
            // Inputs that are due almost at once come before anything else.
            if next.is_none() && self.hurries && wake_at.is_some_and(|at| at <= self.nanos + SOON) {
                self.nanos += SOON;
                now = Now { nanos: self.nanos, wall: now.wall + SOON, ..now };
                next = Some(Input::Tick);
            }
        }
    }

    /// Puts a message of a shard on its way, unless it is lost.
    fn transmit(&mut self, from: ShardIndex, need: Need, (to, peer): Message) {
        self.sent.iter_mut().for_each(|sent| sent.push((need, to, (*peer).clone())));
        let is_lost = self.silent.contains(&to)
            || (self.loses)(to, &peer)
            || codec::encode(0, &*peer).len() > self.frame_max;
        let index = usize::from(from.0);
        match self.logs.get_mut(index) {
            _ if is_lost => {}
            Some(log) => self.messages.extend(log.send(&self.shards[index].1, need, (to, peer))),
            None => self.messages.push_back((to, peer)),
        }
    }

    /// Messages on their way.
    pub fn messages(&self) -> impl Iterator<Item = (ShardIndex, &Peer)> {
        self.messages.iter().map(|(to, peer)| (*to, &**peer))
    }

    /// Delivers the oldest message. False: there is none.
    pub fn step(&mut self) -> bool {
        self.step_of(|_, _| true)
    }

    /// Delivers the oldest message for which `of` holds. False: there is none.
    pub fn step_of(&mut self, of: impl Fn(ShardIndex, &Peer) -> bool) -> bool {
        let at = self.messages.iter().position(|(to, peer)| of(*to, peer));
        let Some((to, peer)) = at.and_then(|at| self.messages.remove(at)) else { return false };
        self.input(to, Input::Peer(peer));
        true
    }

    /// Delivers messages of a transaction. Stops when there is none left, or when a message of the
    /// transaction is an end.
    pub fn step_txn(
        &mut self,
        txn: TxnId,
        versions: Versions,
        is_end: impl Fn(&PeerMessage) -> bool,
    ) {
        let is_its = |peer: &Peer| {
            peer.txn == txn || (versions == Versions::Delivered && peer.txn.number == 0)
        };
        while !self.messages().any(|(_, peer)| peer.txn == txn && is_end(&peer.message))
            && self.step_of(|_, peer| is_its(peer))
        {}
    }

    /// Delivers messages that are not on their way, or not any more.
    pub fn deliver<P: Into<Box<Peer>>>(
        &mut self,
        messages: impl IntoIterator<Item = (ShardIndex, P)>,
    ) {
        for (to, peer) in messages {
            self.input(to, Input::Peer(peer.into()));
        }
    }

    /// Takes the messages for which `of` holds off their way.
    pub fn take(&mut self, of: impl Fn(ShardIndex, &Peer) -> bool) -> Vec<Message> {
        let all = std::mem::take(&mut self.messages).into_iter();
        let (taken, left) = all.partition::<Vec<_>, _>(|(to, peer)| of(*to, peer));
        self.messages = left.into();
        taken
    }

    /// Puts messages back on their way, as the latest.
    pub fn put_back(&mut self, messages: Vec<Message>) {
        self.messages.extend(messages);
    }

    /// From now on no message reaches these shards, and messages reach all others.
    pub fn silence(&mut self, shards: impl IntoIterator<Item = ShardIndex>) {
        self.silent = shards.into_iter().collect();
        self.messages.retain(|(to, _)| !self.silent.contains(to));
    }

    /// Takes the messages sent since the last call, also those that were lost, each with what it
    /// waited for. The first call begins to note them.
    pub fn take_sent(&mut self) -> Vec<(Need, ShardIndex, Peer)> {
        self.sent.replace(Vec::new()).unwrap_or_default()
    }

    /// Lets time pass, then the timers of these shards fire. Delivers nothing.
    pub fn tick(&mut self, shards: impl IntoIterator<Item = ShardIndex>, nanos: u64) {
        self.nanos += nanos;
        shards.into_iter().for_each(|shard| self.input(shard, Input::Tick));
    }

    /// Lets time pass in steps of a tenth of a second. Timers fire, and messages are delivered.
    pub fn wait(&mut self, nanos: u64) {
        let until = self.nanos + nanos;
        while self.nanos < until {
            self.tick(self.all(), 100_000_000);
            while self.step() {}
        }
    }

    /// Delivers all messages and lets timers fire until nothing is left.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            while self.step() {}
            self.tick(self.all(), 2_000_000_000);
        }
    }
}
