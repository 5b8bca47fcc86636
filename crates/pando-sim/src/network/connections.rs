//! The simulated network: connections that behave as sockets do.
//!
//! ```text
//!   frame, frame … ──► segments, each with the moment of its arrival, in order ──► chunks, cut anywhere ──► Decoder ──► messages
//! ```
//!
//! 1. Every message between two processes travels as a frame of `pando-wire`. Messages between
//!    shards of one process do not come here.
//! 2. Two ends have one connection. Bytes arrive in order, and late bytes hold up those behind
//!    them. Several frames may arrive as one chunk, and one frame in many chunks.
//! 3. A connection that breaks loses all bytes that have not arrived, in both directions. Sometimes
//!    bytes to a shard linger, and arrive after the connection was replaced.
//! 4. A flipped bit breaks the connection, at once or when an end notices that nothing arrives. It
//!    has no other effect.
//! 5. An end that is cut off does not notice it. Bytes wait until the cut is over, or until the
//!    connection breaks.

use std::collections::{BTreeMap, VecDeque};

use pando_wire::{Decoder, Message, Stream, encode};

use super::end::{End, Way};
use crate::base::random::Random;
use crate::base::time::MILLISECOND;
use crate::config::parameters::SimConfig;
use crate::counts::bytes::Bytes;
use crate::network::cuts::Cuts;

const MICROSECOND: u64 = 1_000;
/// Maximum time until lingering bytes arrive, nanoseconds.
const LINGERS: u64 = 150 * MILLISECOND;

/// One direction of a connection.
#[derive(Default)]
struct Lane {
    /// Bytes on their way, each segment with its time of arrival.
    segments: VecDeque<(u64, Vec<u8>)>,
    decoder: Decoder,
    /// Whether a flipped bit made a frame look longer than it is, so that no message follows.
    is_stuck: bool,
}

impl Lane {
    /// Takes all segments that have arrived, and returns their number.
    fn take_due(&mut self, now: u64, bytes: &mut Vec<u8>) -> u64 {
        let mut frames = 0;
        while self.segments.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, segment)) = self.segments.pop_front() else { break };
            bytes.extend(segment);
            frames += 1;
        }
        frames
    }

    /// Decodes the delivered bytes up to the last whole message. `false` if they are refused.
    fn decode(&mut self, delivered: &mut Delivered) -> bool {
        self.decoder.feed(&delivered.bytes);
        loop {
            match self.decoder.message() {
                Ok(Some(message)) => delivered.messages.push(message),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

#[derive(Default)]
struct Connection {
    number: u64,
    /// The direction from the lower end to the higher, and the direction back.
    lanes: [Lane; 2],
}

/// The result of a delivery.
#[derive(Default)]
pub struct Delivered {
    /// Messages that are complete, each with its stream.
    pub messages: Vec<(Stream, Message)>,
    /// The bytes that arrived.
    pub bytes: Vec<u8>,
    /// When the rest arrives, if not all of it has.
    pub again: Option<u64>,
    /// Whether the connection is broken.
    pub is_broken: bool,
    /// When the receiver notices that nothing arrives any more, if a flipped bit caused that.
    pub noticed: Option<u64>,
}

/// What a broken connection loses.
#[derive(Clone, Copy, Default, Debug)]
pub struct Broken {
    /// Whether bytes were on their way to the lower end, which is the client if there is one.
    pub replies: bool,
    /// Whether bytes were on their way to the higher end.
    pub requests: bool,
}

/// All connections of a run.
pub struct Network {
    random: Random,
    loss_per_mille: u64,
    connections: BTreeMap<(End, End), Connection>,
    lingering: BTreeMap<u64, (Way, Vec<u8>, Decoder)>,
    last: u64,
    /// The cuts between ends.
    pub cuts: Cuts,
    /// Counts of what happened to bytes.
    pub bytes: Bytes,
    /// Whether connections may break, and bits flip.
    pub is_faulty: bool,
}

impl Network {
    /// The network of a run, with its own random numbers.
    pub fn new(config: &SimConfig, random: Random) -> Self {
        Self {
            random,
            loss_per_mille: config.loss_per_mille,
            connections: BTreeMap::new(),
            lingering: BTreeMap::new(),
            last: 0,
            cuts: Cuts::default(),
            bytes: Bytes::default(),
            is_faulty: true,
        }
    }

    /// Puts a message on its way. Returns its time of arrival and its direction.
    pub fn send(
        &mut self,
        from: End,
        to: End,
        stream: u64,
        message: &Message,
        now: u64,
    ) -> (u64, Way) {
        let delay = self.delay();
        let pair = (from.min(to), from.max(to));
        let connection = self.connections.entry(pair).or_default();
        let number = connection.number;
        let lane = &mut connection.lanes[usize::from(from > to)];
        let earliest = lane.segments.back().map_or(0, |(at, _)| *at);
        let at = earliest.max(now + delay);
        let mut bytes = Vec::new();
        encode(&mut bytes, Stream(stream), message);
        lane.segments.push_back((at, bytes));
        (at, Way { from, to, connection: number })
    }

    /// Decides at random whether a connection breaks while a message travels.
    pub fn breaks(&mut self) -> bool {
        self.is_faulty && self.random.chance(self.loss_per_mille, 1000)
    }

    /// Delivers what is due on `way`, or a part of it.
    pub fn deliver(&mut self, way: Way, now: u64) -> Delivered {
        let mut delivered = Delivered::default();
        let Some(connection) = self.connections.get_mut(&way.pair()) else { return delivered };
        if connection.number != way.connection {
            return delivered;
        }
        let is_faulty = self.is_faulty;
        let lane = &mut connection.lanes[usize::from(way.from > way.to)];
        if is_faulty && let Some(until) = self.cuts.until(way.from, way.to, now) {
            // During a cut, either end may give up the connection.
            delivered.is_broken = self.random.chance(1, 16);
            delivered.again = Some(until + self.random.below(MILLISECOND));
            return delivered;
        }
        let frames = lane.take_due(now, &mut delivered.bytes);
        if delivered.bytes.is_empty() {
            return delivered;
        }
        if is_faulty && self.random.chance(1, 12) {
            let most = delivered.bytes.len() as u64;
            let rest = delivered.bytes.split_off(self.random.below(most) as usize);
            let at = now + self.random.below(300 * MICROSECOND);
            lane.segments.push_front((at, rest));
            delivered.again = Some(at);
            self.bytes.cut += 1;
        } else if frames > 1 {
            self.bytes.joined += 1;
        }
        let is_flipped = is_faulty
            && !delivered.bytes.is_empty()
            && self.random.chance(self.loss_per_mille, 8_000);
        if is_flipped {
            let bit = self.random.below(delivered.bytes.len() as u64 * 8) as usize;
            delivered.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if !lane.decode(&mut delivered) {
            assert!(is_flipped || lane.is_stuck, "whole bytes were refused");
            self.bytes.refused += 1;
            delivered.is_broken = true;
        } else if is_flipped {
            // More bytes may show the decoder that the frame is wrong. If not, an end notices after
            // a while.
            lane.is_stuck = true;
            self.bytes.stuck += 1;
            delivered.noticed = Some(now + self.random.between(20, 100) * MILLISECOND);
        }
        delivered
    }

    /// Makes all bytes from `from` to `to` due now.
    pub fn hurry(&mut self, from: End, to: End, now: u64) -> Way {
        let connection = self.connections.entry((from.min(to), from.max(to))).or_default();
        for segment in &mut connection.lanes[usize::from(from > to)].segments {
            segment.0 = now;
        }
        Way { from, to, connection: connection.number }
    }

    /// Breaks the connection of two ends. Returns what was lost, and each arrival of lingering
    /// bytes as a time and a number.
    pub fn break_off(&mut self, a: End, b: End, now: u64) -> (Broken, Vec<(u64, u64)>) {
        let (low, high) = (a.min(b), a.max(b));
        let Some(connection) = self.connections.get_mut(&(low, high)) else {
            return (Broken::default(), Vec::new());
        };
        let [up, down] = std::mem::take(&mut connection.lanes);
        let number = connection.number;
        connection.number += 1;
        let broken =
            Broken { requests: !up.segments.is_empty(), replies: !down.segments.is_empty() };
        let mut lingering = Vec::new();
        for (lane, from, to) in [(up, low, high), (down, high, low)] {
            let may_linger =
                self.is_faulty && matches!(to, End::Shard(_) | End::Process(_)) && !lane.is_stuck;
            if !may_linger || lane.segments.is_empty() || !self.random.chance(1, 3) {
                continue;
            }
            let bytes: Vec<u8> = lane.segments.into_iter().flat_map(|(_, bytes)| bytes).collect();
            self.last += 1;
            let way = Way { from, to, connection: number };
            self.lingering.insert(self.last, (way, bytes, lane.decoder));
            lingering.push((now + self.random.between(MICROSECOND, LINGERS), self.last));
        }
        (broken, lingering)
    }

    /// Delivers lingering bytes. Returns their direction and their messages.
    pub fn linger(&mut self, number: u64) -> Option<(Way, Vec<(Stream, Message)>)> {
        let (way, bytes, mut decoder) = self.lingering.remove(&number)?;
        decoder.feed(&bytes);
        let mut messages = Vec::new();
        while let Ok(Some(message)) = decoder.message() {
            messages.push(message);
        }
        self.bytes.lingered += 1;
        Some((way, messages))
    }

    /// Number of the current connection of `a` and `b`.
    #[must_use]
    pub fn connection(&self, a: End, b: End) -> u64 {
        self.connections.get(&(a.min(b), a.max(b))).map_or(0, |connection| connection.number)
    }

    /// All clients that have sent or received anything.
    #[must_use]
    pub fn clients(&self) -> Vec<u32> {
        let client = |(low, _): &(End, End)| match low {
            End::Client(client) => Some(*client),
            _ => None,
        };
        let mut clients: Vec<u32> = self.connections.keys().filter_map(client).collect();
        clients.dedup();
        clients
    }

    /// All ends that `end` has a connection with.
    #[must_use]
    pub fn neighbours(&self, end: End) -> Vec<End> {
        let other = |(a, b): &(End, End)| match end {
            _ if *a == end => Some(*b),
            _ if *b == end => Some(*a),
            _ => None,
        };
        self.connections.keys().filter_map(other).collect()
    }

    /// A random delay: mostly short, sometimes long, rarely longer than a client waits for a reply.
    fn delay(&mut self) -> u64 {
        match self.random.below(200) {
            0 if self.is_faulty => self.random.between(5, 100) * MILLISECOND,
            1..10 => self.random.between(500, 5_000) * MICROSECOND,
            _ => self.random.between(20, 400) * MICROSECOND,
        }
    }
}
