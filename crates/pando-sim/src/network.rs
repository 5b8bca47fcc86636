//! What becomes of a message on its way.

use crate::config::{MILLISECOND, SimConfig};
use crate::random::Random;

const MICROSECOND: u64 = 1_000;

/// Delays, losses, repetitions, cuts.
pub struct Network {
    random: Random,
    loss_per_mille: u64,
    /// Pairs of shards that do not hear each other, and until when.
    cuts: Vec<(u16, u16, u64)>,
    /// Whether anything bad happens at all.
    pub is_faulty: bool,
}

impl Network {
    /// The network of a run.
    pub fn new(config: &SimConfig, random: Random) -> Self {
        let loss_per_mille = config.loss_per_mille;
        Self { random, loss_per_mille, cuts: Vec::new(), is_faulty: true }
    }

    /// Delays after which copies of one message arrive: none, one or two.
    pub fn copies(&mut self) -> Vec<u64> {
        let mut copies = Vec::with_capacity(1);
        if !self.is_faulty {
            copies.push(self.delay());
            return copies;
        }
        if !self.random.chance(self.loss_per_mille, 1000) {
            copies.push(self.delay());
        }
        if self.random.chance(self.loss_per_mille, 1000) {
            copies.push(self.delay());
        }
        copies
    }

    /// Cuts two shards off each other for a while.
    pub fn cut(&mut self, shards: u16, now: u64) {
        let (a, b) = (self.random.below(shards.into()), self.random.below(shards.into()));
        let until = now + self.random.between(10, 150) * MILLISECOND;
        self.cuts.retain(|cut| cut.2 > now);
        self.cuts.push((a as u16, b as u16, until));
    }

    /// Whether two shards hear each other.
    #[must_use]
    pub fn is_cut(&self, a: u16, b: u16, now: u64) -> bool {
        self.is_faulty
            && self
                .cuts
                .iter()
                .any(|&(x, y, until)| until > now && ((x, y) == (a, b) || (y, x) == (a, b)))
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
