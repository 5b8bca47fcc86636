//! Cuts of the network: which ends do not reach which others, and until when.

use crate::base::random::Random;
use crate::base::time::MILLISECOND;
use crate::config::parameters::SimConfig;
use crate::network::end::End;

/// A set of ends: bits 0 to 15 are shards, the others are clients.
type Ends = u64;

const SHARDS: Ends = 0xFFFF;

fn bit(end: End) -> Ends {
    match end {
        // A process starts with the shard of its own number.
        End::Shard(at) | End::Process(at) | End::Target(at) => 1 << (at % 16),
        End::Client(client) => 1 << (16 + client % 48),
    }
}

/// A cut between two sets of ends.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    from: Ends,
    to: Ends,
    until: u64,
    /// Whether the other direction is cut, too.
    pub is_both_ways: bool,
}

impl Cut {
    /// A random cut. It separates one end or process from one other or from all, in one direction
    /// or both. Mostly it is short, sometimes longer than a lease.
    pub fn random(random: &mut Random, config: &SimConfig, clients: &[u32], now: u64) -> Self {
        let shard = random.below(config.hosts().into()) as usize;
        let other = random.below(config.hosts().into()) as usize;
        let process = (0..usize::from(config.hosts()))
            .filter(|s| s % config.processes == shard % config.processes)
            .fold(0, |ends, s| ends | bit(End::Shard(s)));
        let client = bit(End::Client(*random.pick(clients)));
        let (mut from, mut to) = match random.below(6) {
            0..3 => (bit(End::Shard(shard)), bit(End::Shard(other))),
            3 => (client, SHARDS),
            4 => (client, bit(End::Shard(shard))),
            _ => (process, !process),
        };
        if random.chance(1, 2) {
            std::mem::swap(&mut from, &mut to);
        }
        let is_long = random.chance(1, 6);
        let length = match is_long {
            true => random.between(1, 3 * config.lease),
            false => random.between(10, 150) * MILLISECOND,
        };
        Self { from, to, until: now + length, is_both_ways: random.chance(1, 2) }
    }

    /// A cut in one direction: nothing from `from` reaches `to`.
    #[must_use]
    pub fn one_way(from: End, to: End, until: u64) -> Self {
        Self { from: bit(from), to: bit(to), until, is_both_ways: false }
    }

    /// A cut between a client and one shard, or all, in both directions.
    #[must_use]
    pub fn off(client: u32, shard: Option<usize>, until: u64) -> Self {
        let to = shard.map_or(SHARDS, |shard| bit(End::Shard(shard)));
        Self { from: bit(End::Client(client)), to, until, is_both_ways: true }
    }

    /// Whether the cut separates this shard from any other end, in either direction.
    #[must_use]
    pub fn concerns(&self, shard: usize) -> bool {
        (self.from | self.to) & bit(End::Shard(shard)) != 0
    }

    /// Whether both sides of the cut have shards.
    #[must_use]
    pub const fn is_among_shards(&self) -> bool {
        self.from & SHARDS != 0 && self.to & SHARDS != 0
    }

    fn stops(&self, from: End, to: End, now: u64) -> bool {
        let (from, to) = (bit(from), bit(to));
        let meets = |a: Ends, b: Ends| self.from & a != 0 && self.to & b != 0;
        self.until > now && (meets(from, to) || (self.is_both_ways && meets(to, from)))
    }
}

/// The cuts of the network.
#[derive(Default, Debug)]
pub struct Cuts(Vec<Cut>);

impl Cuts {
    /// Adds a cut, and drops those that are over.
    pub fn add(&mut self, cut: Cut, now: u64) {
        self.0.retain(|cut| cut.until > now);
        self.0.push(cut);
    }

    /// Until when nothing from `from` reaches `to`; `None`: it does now.
    #[must_use]
    pub fn until(&self, from: End, to: End, now: u64) -> Option<u64> {
        self.0.iter().filter(|cut| cut.stops(from, to, now)).map(|cut| cut.until).max()
    }
}
