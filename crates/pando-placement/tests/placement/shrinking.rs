//! Directories that grow and shrink. A client of any age finds the owner within few probes.

use std::collections::BTreeMap;

use fastrand::Rng;
use pando_placement::{DirMap, birth_radix, child, parent, range, shard_of};
use pando_types::reply::{SplitHistory, Spread};
use pando_types::{Order, PartitionIndex, Radix, ShardIndex};

use crate::tree::any_order;

/// A shard's answer for a name that it does not have.
enum Elsewhere {
    Redirect(SplitHistory),
    AskHome,
}

/// The partitions of one directory, by the rules of the shards.
struct Cluster {
    spread: Spread,
    shards: u16,
    headers: BTreeMap<PartitionIndex, Radix>,
    /// A partition with a decided merge, while its parent's owner has not heard so. That owner lets
    /// requests for its orders wait.
    on_its_way: Option<PartitionIndex>,
    merges: usize,
}

impl Cluster {
    fn new(rng: &mut Rng) -> Self {
        let servers = 1 + rng.u16(..6);
        let base = ShardIndex(rng.usize(..usize::from(servers)) as u16);
        let spread = Spread { base, servers, per_server: 1 + rng.u16(..40) };
        let headers = BTreeMap::from([(PartitionIndex(0), Radix(0))]);
        Self { spread, shards: servers + rng.u16(..3), headers, on_its_way: None, merges: 0 }
    }

    fn owner(&self, i: PartitionIndex) -> ShardIndex {
        shard_of(&self.spread, i)
    }

    /// A shard's history: all partitions that it has.
    fn history(&self, of: ShardIndex) -> SplitHistory {
        let has = self.headers.iter().filter(|(i, _)| self.owner(**i) == of);
        let leaves = has.map(|(i, r)| (*i, *r)).collect();
        SplitHistory { of: Some(of), spread: Some(self.spread), leaves }
    }

    fn holder(&self, order: Order) -> Option<(PartitionIndex, Radix)> {
        let mut holding = self.headers.iter().filter(|(i, r)| range(**i, **r).contains(&order.0));
        let found = holding.next().map(|(i, r)| (*i, *r));
        assert!(holding.next().is_none(), "two hold {order:?}");
        found
    }

    fn ask(&self, shard: ShardIndex, order: Order) -> Result<(), Elsewhere> {
        match (self.holder(order), self.on_its_way.and_then(parent)) {
            (Some((i, _)), _) if self.owner(i) == shard => Ok(()),
            // The request waits at the parent's owner.
            (None, Some(into)) if self.owner(into) == shard => Ok(()),
            _ => Err(match self.history(shard) {
                history if history.leaves.is_empty() => Elsewhere::AskHome,
                history => Elsewhere::Redirect(history),
            }),
        }
    }

    fn split(&mut self, rng: &mut Rng) {
        let nth = rng.usize(..self.headers.len());
        let (&i, &r) = self.headers.iter().nth(nth).expect("it was counted");
        let is_held = self.on_its_way.and_then(parent) == Some(i);
        if !is_held && pando_placement::may_split(&self.spread, i, r, self.shards) {
            self.headers.insert(i, Radix(r.0 + 1));
            self.headers.insert(child(i, r), Radix(r.0 + 1));
        }
    }

    /// Decides a merge of some partition that may merge.
    fn give_back(&mut self, rng: &mut Rng) {
        let ripe = |(i, r): (&PartitionIndex, &Radix)| {
            let parent = parent(*i)?;
            (birth_radix(*i) == *r && self.headers.get(&parent) == Some(r)).then_some(*i)
        };
        let ripe: Vec<_> = self.headers.iter().filter_map(ripe).collect();
        if self.on_its_way.is_none() && !ripe.is_empty() {
            let i = ripe[rng.usize(..ripe.len())];
            self.headers.remove(&i);
            self.on_its_way = Some(i);
            self.merges += 1;
        }
    }

    /// The parent's owner hears of the merge.
    fn take_back(&mut self) {
        if let Some(i) = self.on_its_way.take() {
            let into = parent(i).expect("it has one");
            self.headers.insert(into, Radix(birth_radix(i).0 - 1));
        }
    }

    fn live(&mut self, rng: &mut Rng, shrinks: bool) {
        match rng.usize(..8) {
            0 => self.take_back(),
            1 | 2 if shrinks => self.split(rng),
            _ if shrinks => self.give_back(rng),
            1 => self.give_back(rng),
            _ => self.split(rng),
        }
    }
}

struct Client {
    map: DirMap,
    /// Answers that have not reached the client yet.
    late: Vec<SplitHistory>,
}

impl Client {
    /// Depth of the leaf that the map has for an order.
    fn depth(&self, order: Order) -> usize {
        usize::from(self.map.locate(order).1.0)
    }

    /// Number of wrong probes before the client finds the owner, while nothing changes. Late
    /// answers arrive in between.
    fn probe(&mut self, cluster: &Cluster, order: Order, rng: &mut Rng) -> usize {
        let true_depth = match (cluster.holder(order), cluster.on_its_way) {
            (Some((_, r)), _) => usize::from(r.0),
            (None, i) => usize::from(birth_radix(i.expect("somebody has it")).0),
        };
        let mut most = self.depth(order) + true_depth + 1;
        let mut wrong = 0;
        loop {
            if !self.late.is_empty() && rng.u8(..3) == 0 {
                let at = rng.usize(..self.late.len());
                let answer = self.late.swap_remove(at);
                self.map.learn(&answer);
                // A late answer may bring back partitions that are gone, or refute some that exist.
                // That costs at most one path of each.
                most += self.depth(order) + true_depth + 1;
            }
            let (i, _) = self.map.locate(order);
            let shard = self.map.shard(cluster.spread.base, i);
            match cluster.ask(shard, order) {
                Ok(()) => break,
                Err(Elsewhere::Redirect(history)) => {
                    assert!(self.map.learn(&history), "a redirect teaches something");
                }
                Err(Elsewhere::AskHome) => self.map = DirMap::new(),
            }
            wrong += 1;
            assert!(wrong <= most, "{wrong} wrong probes, depth {true_depth}");
        }
        wrong
    }
}

#[test]
fn a_client_of_any_age_finds_the_owner_while_a_tree_grows_and_shrinks() {
    let (mut merges, mut probes, mut wrong, mut refuted) = (0, 0, 0, 0);
    for seed in 0..400 {
        let rng = &mut Rng::with_seed(seed);
        let mut cluster = Cluster::new(rng);
        let client = |_| Client { map: DirMap::new(), late: Vec::new() };
        let mut clients: Vec<_> = (0..4).map(client).collect();
        let mut shrinks = false;
        for _ in 0..600 {
            if rng.u8(..60) == 0 {
                shrinks = !shrinks;
            }
            cluster.live(rng, shrinks);
            // Client 0 is asked often, client 3 hardly ever.
            let which = rng.usize(..4);
            let client = &mut clients[which];
            if rng.u8(..5) == 0 {
                let shard = ShardIndex(rng.usize(..usize::from(cluster.shards)) as u16);
                client.late.push(cluster.history(shard));
            }
            if rng.usize(..2 << (2 * which)) == 0 {
                let before = client.map.len();
                wrong += client.probe(&cluster, any_order(rng), rng);
                refuted += usize::from(client.map.len() < before);
                probes += 1;
            }
        }
        merges += cluster.merges;
        // A directory that shrinks for long enough is whole again, and all clients learn that.
        for _ in 0..100_000 {
            cluster.give_back(rng);
            cluster.take_back();
            if cluster.headers.len() == 1 {
                break;
            }
        }
        assert!(cluster.headers.iter().eq([(&PartitionIndex(0), &Radix(0))]));
        for client in &mut clients {
            client.late.clear();
            client.probe(&cluster, any_order(rng), rng);
            assert_eq!(client.probe(&cluster, Order(0), rng), 0);
        }
    }
    assert!(merges > 15_000 && refuted > 1_000, "{merges} merges, {refuted} times refuted");
    assert!(wrong < 2 * probes, "{wrong} wrong in {probes}");
}

/// Addressing errors end once shrinking ends, as each takes at least one partition out of the map.
#[test]
fn addressing_errors_end_once_shrinking_ends() {
    for seed in 0..200 {
        let rng = &mut Rng::with_seed(seed);
        let mut cluster = Cluster::new(rng);
        for _ in 0..200 {
            cluster.split(rng);
        }
        let mut client = Client { map: DirMap::with_spread(cluster.spread), late: Vec::new() };
        for (i, r) in &cluster.headers {
            client.map.merge(&SplitHistory { of: None, spread: None, leaves: vec![(*i, *r)] });
        }
        for _ in 0..rng.usize(..400) {
            cluster.give_back(rng);
            cluster.take_back();
        }
        let stale = client.map.len() - cluster.headers.len();
        let mut wrong: usize = (0..300).map(|_| client.probe(&cluster, any_order(rng), rng)).sum();
        // Probe the first and last order of each partition until no probe is wrong.
        let leaves = cluster.headers.iter().map(|(i, r)| range(*i, *r));
        let ends: Vec<_> = leaves.flat_map(|range| [range.start, range.end - 1]).collect();
        while let again @ 1.. =
            ends.iter().map(|order| client.probe(&cluster, Order(*order), rng)).sum::<usize>()
        {
            wrong += again;
        }
        // A shard without partitions makes the client forget everything. What it then learns is not
        // stale.
        let most = stale + 1 + cluster.headers.len();
        assert!(wrong <= most, "{wrong} wrong probes for {stale} stale partitions");
    }
}
