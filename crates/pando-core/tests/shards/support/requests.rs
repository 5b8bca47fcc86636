//! Requests of clients: sent alone, or with all that it takes to answer them.

use pando_core::admission::{Asks, asks};
use pando_core::{ClientTag, Input};
use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{Errno, ShardIndex, Trail, TxnId};

use super::Cluster;

/// What a client sends: an operation, with an identity or a trail if need be, or a whole request.
pub trait Asked {
    /// The request. If it changes something and has no identity, it is the next of this slot.
    fn request(self, c: &mut Cluster, slot: u16) -> Request;
}

impl Asked for Op {
    fn request(self, c: &mut Cluster, slot: u16) -> Request {
        let mut head = Head { trace: c.tag + 1, ..Head::default() };
        if asks(&self) == Asks::Changes {
            c.sequence += 1;
            c.last_id = RequestId { session: c.session, slot, sequence: c.sequence };
            head.id = c.last_id;
        }
        Request { head, credentials: c.by.clone(), op: self, trail: None }
    }
}

impl Asked for (Op, Trail) {
    fn request(self, c: &mut Cluster, slot: u16) -> Request {
        Request { trail: Some(self.1), ..self.0.request(c, slot) }
    }
}

impl Asked for (RequestId, Op) {
    fn request(self, c: &mut Cluster, _: u16) -> Request {
        let head = Head { id: self.0, trace: c.tag + 1, ..Head::default() };
        Request { head, credentials: c.by.clone(), op: self.1, trail: None }
    }
}

impl Asked for Request {
    fn request(self, _: &mut Cluster, _: u16) -> Request {
        self
    }
}

impl Cluster {
    /// Sends a request, and delivers nothing. Returns its tag, which is also its trace.
    pub fn send(&mut self, shard: ShardIndex, asked: impl Asked) -> u64 {
        let slot = 1 + (self.tag % 1_000) as u16;
        let request = asked.request(self, slot);
        self.tag += 1;
        let tag = ClientTag(self.tag, self.key);
        self.input(shard, Input::Client(tag, Box::new(request)));
        self.tag
    }

    /// Takes the reply to the request with this tag, if there is one by now.
    pub fn reply(&mut self, tag: u64) -> Option<Reply> {
        self.replies.remove(&tag)
    }

    /// Takes the answer to the request with this tag, if there is one by now.
    pub fn answer(&mut self, tag: u64) -> Option<Result<Body, Refusal>> {
        self.reply(tag).map(|reply| reply.result)
    }

    /// Sends a request, and delivers nothing. Returns its answer, if there is one at once.
    pub fn ask(&mut self, shard: ShardIndex, asked: impl Asked) -> Option<Result<Body, Refusal>> {
        let tag = self.send(shard, asked);
        self.answer(tag)
    }

    /// Asks for an answer that needs no effects. `None`: there is none.
    pub fn at_once(
        &mut self,
        shard: ShardIndex,
        asked: impl Asked,
    ) -> Option<Result<Body, Refusal>> {
        let (request, now) = (asked.request(self, 0), self.now());
        let (core, store) = &mut self.shards[usize::from(shard.0)];
        core.answer_at_once(now, self.key, &request, store).unwrap().map(|reply| reply.result)
    }

    /// Sends a request. Returns its tag, and the transaction that it has begun.
    pub fn send_txn(&mut self, shard: ShardIndex, asked: impl Asked) -> (u64, Option<TxnId>) {
        let before: Vec<_> = self.messages().map(|(_, peer)| peer.txn).collect();
        let tag = self.send(shard, asked);
        let mut txns = self.messages().map(|(_, peer)| peer.txn);
        (tag, txns.find(|txn| !before.contains(txn)))
    }

    /// Sends a request in request slot 0. Messages are delivered and time passes until it is
    /// answered.
    pub fn run(&mut self, shard: ShardIndex, asked: impl Asked) -> Result<Body, Refusal> {
        let request = asked.request(self, 0);
        let tag = self.send(shard, request);
        for _ in 0..20 {
            while self.step() {}
            if let Some(answer) = self.answer(tag) {
                return answer;
            }
            self.tick(self.all(), 300_000_000);
        }
        panic!("no answer");
    }

    /// Runs a request on one shard after the other, until an owner answers.
    pub fn on_owner(&mut self, op: &Op) -> Result<Body, Refusal> {
        let mut last = Err(Refusal::AskHome);
        for shard in self.all() {
            match self.run(shard, op.clone()) {
                Err(Refusal::AskHome | Refusal::HashSlot(_)) => {}
                // An owner that has nothing is a better answer than a shard that owns nothing.
                answer @ Err(
                    Refusal::Redirect(_) | Refusal::NotUnderName | Refusal::Errno(Errno::ESTALE),
                ) => last = answer,
                answer => return answer,
            }
        }
        last
    }
}
