//! How clients and processes learn which process has which shard.
//!
//! 1. Each client and each process has a table of shards, with the latest epoch that it has heard
//!    of (as in `pando-server/src/net/peers/hosts.rs`). Any table may be old.
//! 2. A process hears from the source's folder, from the targets of moves, and from other processes
//!    when links open. A client hears when a process lets it in. A sender that is not let in asks
//!    some other process.
//! 3. A connection leads to the process that was believed to have the shard when the connection was
//!    opened. This also holds for bytes that arrive late.

use crate::base::time::MILLISECOND;
use crate::network::end::{End, Way};
use crate::world::state::beliefs::{Believer, Led};
use crate::world::state::event::SimEvent;
use crate::world::state::world::World;

impl World {
    fn believer(&self, end: End) -> Option<Believer> {
        match end {
            End::Client(client) => Some(Believer::Client(client)),
            End::Shard(shard) => Some(Believer::Process(self.server_of(shard))),
            End::Process(_) | End::Target(_) => None,
        }
    }

    /// The process that `believer` takes for the shard's; without a table entry, the one where the
    /// shard started.
    pub(super) fn believed(&self, believer: Believer, shard: usize) -> usize {
        let known = self.moves.as_ref().and_then(|moves| moves.beliefs.of(believer, shard));
        known.map_or(shard % self.servers.len(), |(_, server)| server)
    }

    /// Makes the connection to a shard lead where the shard is believed to be. A connection that
    /// leads elsewhere is broken, and a new one takes its place.
    pub(crate) fn aim(&mut self, from: End, to: End) {
        let (Some(believer), End::Shard(shard)) = (self.believer(from), to) else { return };
        if self.moves.is_none() {
            return;
        }
        let believed = self.believed(believer, shard);
        let connection = self.network.connection(from, to);
        let led = self.moves.as_ref().and_then(|m| m.beliefs.led.get(&(from, to, connection)));
        let connection = match led {
            Some(led) if led.server == believed => return,
            Some(_) => {
                self.break_off(from, to);
                self.network.connection(from, to)
            }
            None => connection,
        };
        if let Some(moves) = &mut self.moves {
            let led = Led { server: believed, is_let_in: false };
            moves.beliefs.led.insert((from, to, connection), led);
        }
    }

    /// Whether a message arrives at a process that has the shard. If not, the sender is not let in,
    /// and asks some other process.
    pub(crate) fn comes_right(&mut self, way: Way, shard: usize) -> bool {
        let (Some(moves), Some(believer)) = (&self.moves, self.believer(way.from)) else {
            return true;
        };
        let key = (way.from, way.to, way.connection);
        let Some(&Led { server, is_let_in }) = moves.beliefs.led.get(&key) else { return true };
        let has_it = self.has(server, shard);
        if has_it && !is_let_in {
            self.is_let_in(believer, server);
            if let Some(moves) = &mut self.moves {
                moves.beliefs.led.insert(key, Led { server, is_let_in: true });
            }
        }
        if !has_it {
            if let Some(moves) = &mut self.moves {
                moves.counts.astray += u64::from(self.servers[server].driven().is_some());
            }
            let other = self.random.below(self.servers.len() as u64) as usize;
            if self.servers[other].driven().is_some() {
                self.is_let_in(believer, other);
            }
        }
        has_it
    }

    /// Whether a shard runs in a process.
    pub(super) fn has(&self, server: usize, shard: usize) -> bool {
        let driven = self.servers[server].driven();
        driven.is_some_and(|driven| driven.host().epoch(self.index(shard)).is_some())
    }

    /// A process lets a client or another process in, and tells all that it knows. A process that
    /// is let in first tells which shards it has.
    fn is_let_in(&mut self, believer: Believer, server: usize) {
        let own = match believer {
            Believer::Process(other) => self.own(other),
            Believer::Client(_) => Vec::new(),
        };
        let welcomes = self.own(server);
        let Some(moves) = &mut self.moves else { return };
        let process = Believer::Process(server);
        moves.beliefs.learn(process, own.into_iter().chain(welcomes));
        let told = moves.beliefs.table(process);
        moves.beliefs.learn(believer, told);
    }

    /// The shards that a process has, with their epochs.
    fn own(&self, server: usize) -> Vec<(usize, (u64, usize))> {
        let Some(driven) = self.servers[server].driven() else { return Vec::new() };
        let epoch = |shard: usize| driven.host().epoch(self.index(shard));
        let own =
            (0..self.hosts.len()).filter_map(|shard| Some((shard, (epoch(shard)?.0, server))));
        own.collect()
    }

    /// A process closes and opens its links. It tells all other processes what it has, and hears
    /// what they know.
    pub(super) fn open_links(&mut self, server: usize) {
        for shard in self.servers[server].shards.clone() {
            for other in self.network.neighbours(End::Shard(shard)) {
                if matches!(other, End::Shard(_)) {
                    self.break_off(End::Shard(shard), other);
                }
            }
        }
        let life = self.servers[server].life;
        for other in (0..self.servers.len()).filter(|&other| other != server) {
            let delay = self.random.between(100_000, 3 * MILLISECOND);
            self.after(delay, SimEvent::Greet(server, life, other));
        }
    }

    /// Opens a link between two processes, or plans another attempt.
    pub(crate) fn greet(&mut self, server: usize, other: usize) {
        let (from, to) = (End::Process(server), End::Process(other));
        let is_cut = self.is_faulty && self.network.cuts.until(from, to, self.time).is_some();
        if self.servers[other].driven().is_some() && !is_cut {
            return self.is_let_in(Believer::Process(server), other);
        }
        let delay = self.random.between(10, 60) * MILLISECOND;
        self.after(delay, SimEvent::Greet(server, self.servers[server].life, other));
    }
}
