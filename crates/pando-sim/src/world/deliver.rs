//! What arrives at shards, processes and clients, and connections that break.

use pando_client::TransportError;
use pando_types::reply::{Body, Refusal};
use pando_wire::{Message, Stream};

use crate::network::cuts::Cut;
use crate::network::end::{End, Way};
use crate::network::line::Line;
use crate::network::mail::Ticket;
use crate::world::state::event::SimEvent;
use crate::world::state::world::{Asked, World};

impl World {
    /// Reports what a reply says of a session or of an operation.
    pub(crate) fn overhear(&mut self, asked: &Asked, result: &Result<Body, Refusal>) {
        let End::Shard(shard) = asked.way.to else { return };
        let is_doubtful = self.is_doubtful(shard, result);
        match result {
            Err(Refusal::NoSession) if asked.heard.id.sequence > 0 => {
                self.stats.refused_sessions += 1;
            }
            Err(Refusal::Stale) => self.stats.stale_trails += 1,
            _ => {}
        }
        self.ear.leaves(&asked.heard, result, is_doubtful);
    }

    /// Puts a message on its way.
    pub(crate) fn put(&mut self, from: End, to: End, stream: u64, message: &Message) {
        self.aim(from, to);
        let (at, way) = self.network.send(from, to, stream, message, self.time);
        self.at(at, SimEvent::Deliver(way));
        if self.network.breaks() {
            let moment = self.random.between(self.time, at + 1);
            self.at(moment, SimEvent::Break(way));
        }
    }

    pub(crate) fn is_connected(&self, way: Way) -> bool {
        self.network.connection(way.from, way.to) == way.connection
    }

    pub(crate) fn deliver(&mut self, way: Way) {
        let delivered = self.network.deliver(way, self.time);
        let (bytes, count) = (&delivered.bytes, delivered.bytes.len());
        if count > 0 {
            let line = format_args!("{:?} -> {:?}: {count} bytes", way.from, way.to);
            self.trace.note(self.time, bytes, line);
        }
        for (stream, message) in delivered.messages {
            self.receive(way, stream, message);
        }
        if let Some(at) = delivered.again {
            self.at(at, SimEvent::Deliver(way));
        }
        if let Some(at) = delivered.noticed {
            self.at(at, SimEvent::Break(way));
        }
        if delivered.is_broken {
            self.break_off(way.from, way.to);
        }
    }

    pub(crate) fn receive(&mut self, way: Way, stream: Stream, message: Message) {
        let line = Line { way, stream, message: &message };
        self.trace.note(self.time, &[], format_args!("{line}"));
        match (way.to, message) {
            (End::Shard(shard), Message::Request(request)) => {
                self.stats.requests[shard] += 1;
                self.sequence += 1;
                let number = self.sequence;
                let heard = self.ear.comes(&request);
                if self.is_heard(shard, way) {
                    self.asked.insert(number, Asked { way, stream, heard });
                    self.hear(shard, number, request);
                }
            }
            (End::Shard(shard), Message::Peer(peer)) => {
                if self.is_heard(shard, way) {
                    self.servers[self.server_of(shard)].submit_peer(self.index(shard), peer);
                    self.plan_turn(shard);
                }
            }
            (End::Client(_), Message::Reply(reply)) => {
                self.calls.remove(&stream.0);
                self.mail.answer(stream.0, Ok(Box::new(reply)));
            }
            (End::Process(server), Message::Ask(ask)) => {
                self.process_is_asked(server, way, stream, ask);
            }
            (End::Target(server), Message::Told(told)) => self.target_is_told(server, stream, told),
            (to, message) => panic!("{message:?} came to {to:?}"),
        }
    }

    /// Whether a process runs the shard, and may let the message in. If not, the connection is
    /// broken.
    fn is_heard(&mut self, shard: usize, way: Way) -> bool {
        let is_heard = self.comes_right(way, shard) && self.hosts[shard].process.is_some();
        if !is_heard && self.is_connected(way) {
            self.break_off(way.from, way.to);
        }
        is_heard
    }

    /// Delivers now everything that `end` has sent.
    pub(crate) fn say_all(&mut self, end: End) {
        for other in self.network.neighbours(end) {
            let way = self.network.hurry(end, other, self.time);
            self.deliver(way);
        }
    }

    /// Breaks the connection of two ends. Calls on it are lost.
    pub(crate) fn break_off(&mut self, a: End, b: End) {
        self.trace.note(self.time, &[], format_args!("{a:?} and {b:?} are disconnected"));
        let (broken, lingering) = self.network.break_off(a, b, self.time);
        self.stats.broken += 1;
        self.target_hears_nothing(a, b);
        for (at, number) in lingering {
            self.at(at, SimEvent::Linger(number));
        }
        let (End::Client(client), End::Shard(shard)) = (a.min(b), a.max(b)) else { return };
        let lost: Vec<Ticket> = self
            .calls
            .iter()
            .filter(|(_, call)| **call == (client, shard))
            .map(|(ticket, _)| *ticket)
            .collect();
        self.stats.broken_with_reply += u64::from(!lost.is_empty() && broken.replies);
        self.stats.broken_with_request += u64::from(!lost.is_empty() && broken.requests);
        for ticket in lost {
            self.calls.remove(&ticket);
            self.mail.answer(ticket, Err(TransportError::Lost));
        }
    }

    pub(crate) fn cut(&mut self) {
        let clients: Vec<u32> = self.network.clients();
        if clients.is_empty() {
            return;
        }
        let cut = Cut::random(&mut self.random, &self.config, &clients, self.time);
        self.trace.note(self.time, &[], format_args!("{cut:?}"));
        self.stats.cut(&cut, &self.hosts);
        self.network.cuts.add(cut, self.time);
    }
}
