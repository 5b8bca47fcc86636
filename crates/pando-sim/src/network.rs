//! What becomes of messages on their way: connections, as sockets are.
//!
//! ```text
//!   frame, frame … ──► segments, each with the moment of its arrival, in order ──► chunks, cut anywhere ──► Decoder ──► messages
//! ```
//!
//! 1. Every message between two processes travels as a frame of `pando-wire`. What shards of one
//!    process say to each other does not come here.
//! 2. Two ends have one connection. Bytes arrive in order; late ones hold up those behind them;
//!    several frames may arrive as one chunk, and one frame in many.
//! 3. A connection that breaks loses all bytes that have not arrived, in both directions. Sometimes
//!    what was sent to a shard lingers, and arrives after all when the connection is long replaced.
//! 4. A flipped bit breaks the connection, at once or when somebody notices that nothing comes; it
//!    never does anything else.
//! 5. Who is cut off does not know: bytes wait until the cut is over, or the connection breaks with
//!    it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;

use pando_wire::{Decoder, Message, Stream, encode};

use crate::config::{MILLISECOND, SimConfig};
use crate::cuts::Cuts;
use crate::random::Random;

const MICROSECOND: u64 = 1_000;
/// What lingers arrives within this.
const LINGERS: u64 = 150 * MILLISECOND;

/// Who sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// A client, by its number.
    Client(u32),
    /// A shard, by its position.
    Shard(usize),
    /// A process that is asked about moves, by its position.
    Process(usize),
    /// What of a process asks others about moves.
    Target(usize),
}

/// Bytes from one end to another, on one of their connections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// Who sends.
    pub from: End,
    /// Who receives.
    pub to: End,
    /// The how manyth connection of the two this is.
    pub connection: u64,
}

impl Way {
    /// The two ends, in whatever direction.
    fn pair(self) -> (End, End) {
        (self.from.min(self.to), self.from.max(self.to))
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Lane {
    /// Bytes on their way, each with the moment of its arrival.
    segments: VecDeque<(u64, Vec<u8>)>,
    decoder: Decoder,
    /// A flipped bit made a frame look longer than it is: nothing comes any more.
    is_stuck: bool,
}

#[derive(Default)]
struct Connection {
    number: u64,
    /// From the lower end to the higher, and back.
    lanes: [Lane; 2],
}

/// What came of a delivery.
#[derive(Default)]
pub struct Delivered {
    /// Messages that are whole, with whom they are for.
    pub messages: Vec<(Stream, Message)>,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The rest comes then.
    pub again: Option<u64>,
    /// The connection is broken.
    pub is_broken: bool,
    /// Nothing comes any more, and that is noticed then.
    pub noticed: Option<u64>,
}

/// What a broken connection takes along.
#[derive(Clone, Copy, Default, Debug)]
pub struct Broken {
    /// Bytes on their way to the lower end, to a client if one is.
    pub replies: bool,
    /// Bytes on their way to the higher end.
    pub requests: bool,
}

/// How often what happened to bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Bytes {
    /// Frames that came in more than one chunk.
    pub cut: u64,
    /// Chunks with more than one frame.
    pub joined: u64,
    /// Chunks with a flipped bit that the decoder refused.
    pub refused: u64,
    /// Flipped bits after which nothing came any more.
    pub stuck: u64,
    /// Chunks that came after their connection was replaced.
    pub lingered: u64,
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.cut += other.cut;
        self.joined += other.joined;
        self.refused += other.refused;
        self.stuck += other.stuck;
        self.lingered += other.lingered;
    }
}

/// All connections.
pub struct Network {
    random: Random,
    loss_per_mille: u64,
    connections: BTreeMap<(End, End), Connection>,
    lingering: BTreeMap<u64, (Way, Vec<u8>, Decoder)>,
    last: u64,
    /// Who does not reach whom.
    pub cuts: Cuts,
    /// What happened to bytes.
    pub bytes: Bytes,
    /// Whether anything bad happens at all.
    pub is_faulty: bool,
}

impl Network {
    /// The network of a run.
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

    /// Puts a message on its way; when it arrives, and where.
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

    /// Whether a connection breaks at this moment, for no reason.
    pub fn breaks(&mut self) -> bool {
        self.is_faulty && self.random.chance(self.loss_per_mille, 1000)
    }

    /// Lets arrive what is due on `way`, or some of it.
    pub fn deliver(&mut self, way: Way, now: u64) -> Delivered {
        let mut delivered = Delivered::default();
        let Some(connection) = self.connections.get_mut(&way.pair()) else { return delivered };
        if connection.number != way.connection {
            return delivered;
        }
        let is_faulty = self.is_faulty;
        let lane = &mut connection.lanes[usize::from(way.from > way.to)];
        if is_faulty && let Some(until) = self.cuts.until(way.from, way.to, now) {
            // Meanwhile one side may give up.
            delivered.is_broken = self.random.chance(1, 16);
            delivered.again = Some(until + self.random.below(MILLISECOND));
            return delivered;
        }
        let mut frames = 0;
        while lane.segments.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, bytes)) = lane.segments.pop_front() else { break };
            delivered.bytes.extend(bytes);
            frames += 1;
        }
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
        lane.decoder.feed(&delivered.bytes);
        loop {
            match lane.decoder.message() {
                Ok(Some(message)) => delivered.messages.push(message),
                Ok(None) => break,
                Err(_) => {
                    assert!(is_flipped || lane.is_stuck, "whole bytes were refused");
                    self.bytes.refused += 1;
                    delivered.is_broken = true;
                    break;
                }
            }
        }
        if is_flipped && !delivered.is_broken {
            // More bytes may show that the frame is none; if not, somebody notices after a while.
            lane.is_stuck = true;
            self.bytes.stuck += 1;
            delivered.noticed = Some(now + self.random.between(20, 100) * MILLISECOND);
        }
        delivered
    }

    /// All that `from` has sent to `to` is there at once.
    pub fn hurry(&mut self, from: End, to: End, now: u64) -> Way {
        let connection = self.connections.entry((from.min(to), from.max(to))).or_default();
        for segment in &mut connection.lanes[usize::from(from > to)].segments {
            segment.0 = now;
        }
        Way { from, to, connection: connection.number }
    }

    /// Breaks the connection of two ends. What lingers is told with the moments of its arrival.
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

    /// What lingered arrives.
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

    /// The connection that `a` and `b` have now.
    #[must_use]
    pub fn connection(&self, a: End, b: End) -> u64 {
        self.connections.get(&(a.min(b), a.max(b))).map_or(0, |connection| connection.number)
    }

    /// Clients that ever sent anything.
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

    /// Whom `end` is connected to.
    #[must_use]
    pub fn neighbours(&self, end: End) -> Vec<End> {
        let other = |(a, b): &(End, End)| match end {
            _ if *a == end => Some(*b),
            _ if *b == end => Some(*a),
            _ => None,
        };
        self.connections.keys().filter_map(other).collect()
    }

    /// Mostly short, sometimes long, rarely so long that the sender has long given up.
    fn delay(&mut self) -> u64 {
        match self.random.below(200) {
            0 if self.is_faulty => self.random.between(5, 100) * MILLISECOND,
            1..10 => self.random.between(500, 5_000) * MICROSECOND,
            _ => self.random.between(20, 400) * MICROSECOND,
        }
    }
}
