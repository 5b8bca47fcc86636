//! A growing directory: servers know only their own partitions, and split them by themselves.
//! Clients have stale maps. These tests check GIGA+'s claims on what that costs (§3.2, §3.3, §5.2
//! to §5.4, the poster).

use std::collections::BTreeMap;

use fastrand::Rng;
use pando_placement::{ClusterMap, DirMap, Secrets, child, may_split, range, shard_of};
use pando_types::reply::{SplitHistory, Spread};
use pando_types::{DirId, Order, PartitionIndex, Radix, ShardIndex};

/// Entries beyond which a partition splits (§5: "always 8,000").
const THRESHOLD: usize = 8_000;

/// One directory on its servers.
struct Directory {
    spread: Spread,
    servers: u16,
    threshold: usize,
    /// Partitions by first order. A partition keeps its orders while it may yet split.
    partitions: BTreeMap<u64, Partition>,
    /// Leaves that each server owns. It tells them in a redirect.
    owned: BTreeMap<ShardIndex, Vec<(PartitionIndex, Radix)>>,
    splits: usize,
}

struct Partition {
    index: PartitionIndex,
    radix: Radix,
    entries: usize,
    orders: Option<Vec<u64>>,
}

impl Directory {
    fn new(spread: Spread, servers: u16, threshold: usize) -> Self {
        let (index, radix) = (PartitionIndex(0), Radix(0));
        let whole = Partition { index, radix, entries: 0, orders: Some(Vec::new()) };
        let owned = BTreeMap::from([(spread.base, vec![(index, radix)])]);
        let partitions = BTreeMap::from([(0, whole)]);
        Self { spread, servers, threshold, partitions, owned, splits: 0 }
    }

    fn round_robin(servers: u16, per_server: u16) -> Self {
        let spread = Spread { base: ShardIndex(0), servers, per_server };
        Self::new(spread, servers, THRESHOLD)
    }

    /// Splits partitions until none may split.
    fn split_all(&mut self) {
        self.threshold = 0;
        loop {
            let may = |p: &&Partition| may_split(&self.spread, p.index, p.radix, self.servers);
            let Some(start) = self.partitions.iter().find(|(_, p)| may(p)).map(|(s, _)| *s) else {
                return;
            };
            self.split(start);
        }
    }

    fn start(&self, order: Order) -> u64 {
        *self.partitions.range(..=order.0).next_back().expect("partition 0 begins at 0").0
    }

    fn owner(&self, partition: &Partition) -> ShardIndex {
        shard_of(&self.spread, partition.index)
    }

    /// A server's answer for a name: its own, or a redirect with all that the server owns.
    fn ask(&self, server: ShardIndex, order: Order) -> Result<(), SplitHistory> {
        let partition = &self.partitions[&self.start(order)];
        if self.owner(partition) == server {
            return Ok(());
        }
        let leaves = self.owned[&server].clone();
        Err(SplitHistory { of: Some(server), spread: Some(self.spread), leaves })
    }

    fn create(&mut self, order: Order) {
        let start = self.start(order);
        let (spread, servers) = (self.spread, self.servers);
        let partition = self.partitions.get_mut(&start).expect("it was found");
        partition.entries += 1;
        if let Some(orders) = &mut partition.orders {
            orders.push(order.0);
        }
        if partition.entries > self.threshold && partition.orders.is_some() {
            if may_split(&spread, partition.index, partition.radix, servers) {
                self.split(start);
            } else {
                partition.orders = None;
            }
        }
    }

    fn split(&mut self, start: u64) {
        let spread = self.spread;
        let from = self.partitions.get_mut(&start).expect("it was found");
        let new = child(from.index, from.radix);
        let old = (from.index, from.radix);
        from.radix.0 += 1;
        let upper = range(new, from.radix).start;
        let orders = from.orders.take().unwrap_or_default();
        let (moving, staying): (Vec<_>, Vec<_>) = orders.into_iter().partition(|o| *o >= upper);
        from.entries = staying.len();
        from.orders = Some(staying);
        let (index, radix) = (from.index, from.radix);
        let entries = moving.len();
        let born = Partition { index: new, radix, entries, orders: Some(moving) };
        self.partitions.insert(upper, born);
        let of_parent = self.owned.get_mut(&shard_of(&spread, index)).expect("its owner");
        *of_parent.iter_mut().find(|leaf| **leaf == old).expect("it is owned") = (index, radix);
        self.owned.entry(shard_of(&spread, new)).or_default().push((new, radix));
        self.splits += 1;
    }

    /// Number of wrong probes of a client before it finds the owner.
    fn probe(&self, map: &mut DirMap, order: Order) -> usize {
        for wrong in 0.. {
            let (i, _) = map.locate(order);
            match self.ask(map.shard(self.spread.base, i), order) {
                Ok(()) => return wrong,
                Err(history) => assert!(map.learn(&history), "a redirect teaches something"),
            }
        }
        unreachable!()
    }

    fn radix_max(&self) -> usize {
        self.partitions.values().map(|p| usize::from(p.radix.0)).max().unwrap_or(0)
    }

    /// Each server's share of all names, computed from its ranges.
    fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; usize::from(self.servers)];
        for partition in self.partitions.values() {
            shares[usize::from(self.owner(partition).0)] += 0.5_f64.powi(partition.radix.0.into());
        }
        shares
    }
}

/// Counts of a concurrent create workload.
#[derive(Default, Debug)]
struct Errors {
    requests: usize,
    misrouted: usize,
    second_probe_right: usize,
    wrong_probes_max: usize,
    /// Requests made when the last partition split, and when the last request was misrouted.
    last_split_at: usize,
    last_misrouted_at: usize,
}

/// Clients take turns in creating files. No two files have one name.
fn concurrent_create(directory: &mut Directory, clients: usize, each: usize, seed: u64) -> Errors {
    let mut rng = Rng::with_seed(seed);
    let mut maps = vec![DirMap::new(); clients];
    let mut errors = Errors::default();
    for _ in 0..each {
        for map in &mut maps {
            let order = Order(rng.u64(..Order::END));
            let wrong = directory.probe(map, order);
            errors.requests += 1;
            if wrong > 0 {
                errors.misrouted += 1;
                errors.second_probe_right += usize::from(wrong == 1);
                errors.wrong_probes_max = errors.wrong_probes_max.max(wrong);
                errors.last_misrouted_at = errors.requests;
            }
            let told = map.deeper(order, directory.partitions[&directory.start(order)].radix);
            told.inspect(|told| assert!(map.merge(told), "news"));
            let before = directory.splits;
            directory.create(order);
            if directory.splits > before {
                errors.last_split_at = errors.requests;
            }
        }
    }
    errors
}

/// §5.4, Figure 9(a): "fewer than 0.05 % of the requests are addressed incorrectly". The paper has
/// one to 16 partitions a server, clusters of up to 32 servers, and 400,000 files for each client.
/// Here a client creates a quarter of that, which is harder. Only the worst case has the full
/// number. It holds only because answers tell the depth of the partition.
#[test]
fn fewer_than_5_of_10000_creates_are_misrouted() {
    let easy = [(2, 1), (8, 1), (8, 4), (8, 16), (30, 1)].map(|cluster| (cluster, 400_000 / 4));
    for ((servers, per_server), each) in easy.into_iter().chain([((30, 16), 400_000)]) {
        let mut directory = Directory::round_robin(servers, per_server);
        let errors = concurrent_create(&mut directory, usize::from(servers), each, 1);
        assert!(
            errors.misrouted * 10_000 <= errors.requests * 5,
            "{servers} x {per_server}: {errors:?}"
        );
    }
}

/// §5.4, Figure 9(b), the worst case: 30 servers with 16 partitions each, and 240 threads that
/// create 50,000 files each. The second probe is right in the common case, and "the last 80 % of
/// the work is done … without any addressing errors". The paper shows one thread. Here, of all
/// threads, the last misrouted create comes after a third of the work. The paper saw no third
/// probe; without coordination one is possible. Threshold and threads are a quarter of the paper's.
#[test]
fn misrouted_creates_find_the_server_with_the_second_probe_and_end_with_the_splits() {
    let mut directory = Directory::round_robin(30, 16);
    directory.threshold = THRESHOLD / 4;
    let errors = concurrent_create(&mut directory, 240 / 4, 50_000, 2);
    assert_eq!(directory.partitions.len(), 480);
    assert!(errors.second_probe_right * 100 >= errors.misrouted * 95, "{errors:?}");
    assert!(errors.wrong_probes_max <= 3, "{errors:?}");
    assert!(errors.last_split_at * 100 <= errors.requests * 25, "{errors:?}");
    assert!(errors.last_misrouted_at * 100 <= errors.requests * 35, "{errors:?}");
}

/// §5.4, Figure 9(c): the create benchmark has ended on 30 servers with 16 partitions each. A new
/// client then looks up 10,000 names. One request has at most 3 addressing errors, and all have at
/// most 30. The paper has one run; here the medians of a thousand count. No run exceeds the depth
/// of the tree plus one (§3.3). The paper's run saw no error after the 40th request. Here the
/// median run sees its last of 19 errors at the 143rd, as names of a 512th of the directory come
/// late.
#[test]
fn a_new_client_on_30_servers_with_16_partitions_each_soon_knows_them_all() {
    let mut directory = Directory::round_robin(30, 16);
    directory.split_all();
    assert_eq!(directory.partitions.len(), 480);
    let depth = directory.radix_max();
    let (mut worst, mut total, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 0..1_000 {
        let mut rng = Rng::with_seed(seed);
        let mut map = DirMap::new();
        let wrong: Vec<_> =
            (0..10_000).map(|_| directory.probe(&mut map, Order(rng.u64(..Order::END)))).collect();
        worst.push(*wrong.iter().max().expect("there are lookups"));
        total.push(wrong.iter().sum::<usize>());
        last.push(wrong.iter().rposition(|&wrong| wrong > 0).map_or(0, |at| at + 1));
    }
    for figures in [&mut worst, &mut total, &mut last] {
        figures.sort_unstable();
    }
    println!(
        "worst request {} (of all runs {}), in all {} ({}), last error at lookup {} ({})",
        worst[500], worst[999], total[500], total[999], last[500], last[999]
    );
    assert!(worst[500] <= 3 && worst[999] <= depth + 1);
    assert!(total[500] <= 30);
    assert!(last[500] <= 200);
}

/// §5.2, Lesson #1: splitting stops when all servers have their number of partitions. After that
/// the partitions just grow.
#[test]
fn splitting_stops_at_so_many_partitions_a_server() {
    for (servers, per_server) in [(1, 1), (4, 1), (5, 3), (16, 1), (7, 4)] {
        let mut directory = Directory::round_robin(servers, per_server);
        directory.threshold = 50;
        let partitions = usize::from(servers) * usize::from(per_server);
        concurrent_create(&mut directory, 2, partitions * 400, 3);
        assert_eq!(directory.partitions.len(), partitions);
        for server in 0..servers {
            assert_eq!(directory.owned[&ShardIndex(server)].len(), usize::from(per_server));
        }
    }
}

/// §5.2, Figure 6(b), the policy of classic database indices: no partition stays beyond the
/// threshold.
#[test]
fn continuous_splitting_goes_on_for_ever() {
    let mut directory = Directory::round_robin(16, u16::MAX);
    directory.threshold = 50;
    concurrent_create(&mut directory, 4, 50_000, 4);
    assert!(directory.partitions.values().all(|p| p.entries <= 50));
    assert!(directory.partitions.len() > 16 * 200);
    let counts: Vec<_> = directory.owned.values().map(Vec::len).collect();
    assert!(counts.iter().max() <= counts.iter().min().map(|n| n * 2).as_ref(), "{counts:?}");
}

/// §5.4 and the poster: let the number of servers be a power of two. Once each server has a
/// partition, all further splits stay on their server. They cost no traffic, and no addressing
/// errors for a client that knows the first D rows of the tree.
#[test]
fn with_a_power_of_two_servers_further_splits_stay_where_they_are() {
    for d in 0..6_u8 {
        for base in [0, 1] {
            let servers = 1_u16 << d;
            let base = ShardIndex(base % servers);
            let spread = Spread { base, servers, per_server: 16 };
            let mut directory = Directory::new(spread, servers, THRESHOLD);
            let mut client = DirMap::with_spread(spread);
            for r in 0..d {
                (0..1_u32 << r).for_each(|i| {
                    client.split(PartitionIndex(i));
                });
            }
            for (i, r) in client.leaves() {
                for deeper in r.0..r.0 + 4 {
                    let born = child(i, Radix(deeper));
                    assert_eq!(shard_of(&spread, born), shard_of(&spread, i), "{i:?} of 2^{d}");
                }
            }
            directory.split_all();
            let rng = &mut Rng::with_seed(d.into());
            for _ in 0..1_000 {
                assert_eq!(directory.probe(&mut client, Order(rng.u64(..Order::END))), 0);
            }
        }
    }
}

/// §5.3, Figure 7(a), Lesson #2: with one partition a server, powers of two are perfectly balanced.
/// Other numbers of servers need a few more partitions.
#[test]
fn more_partitions_a_server_balance_the_load() {
    let deviation = |servers: u16, per_server| {
        let mut directory = Directory::round_robin(servers, per_server);
        directory.split_all();
        let even = 1.0 / f64::from(servers);
        let shares = directory.shares();
        shares.iter().map(|share| (share - even).abs() / even).sum::<f64>() / f64::from(servers)
    };
    let mean =
        |per_server| (1..=32).map(|servers| deviation(servers, per_server)).sum::<f64>() / 32.0;
    for servers in [1, 2, 4, 8, 16, 32] {
        assert!(deviation(servers, 1) < 1e-9);
    }
    for servers in [3, 5, 10, 24, 30] {
        assert!(deviation(servers, 1) > 0.1);
        assert!(deviation(servers, 16) < 0.10, "{servers}: {}", deviation(servers, 16));
    }
    assert!(mean(4) < mean(1) / 2.0 && mean(16) < mean(4) / 2.0);
}

/// §3.4: partitions of the first servers go round robin, those of added servers in sequence. An
/// addition moves only what splits onto the new servers. The clients knew the directory before; 3
/// of 8 servers came later.
#[test]
fn clients_find_servers_that_were_added_to_a_running_directory() {
    let spread = Spread { base: ShardIndex(2), servers: 5, per_server: 3 };
    let mut directory = Directory::new(spread, 5, 50);
    concurrent_create(&mut directory, 3, 4_000, 5);
    assert_eq!(directory.partitions.len(), 15);
    let mut old = DirMap::new();
    let rng = &mut Rng::with_seed(6);
    (0..500).for_each(|_| {
        directory.probe(&mut old, Order(rng.u64(..Order::END)));
    });
    let before = directory.owned.clone();
    directory.servers = 8;
    directory.split_all();
    assert_eq!(directory.partitions.len(), 24);
    for (server, leaves) in &before {
        let now: Vec<_> = directory.owned[server].iter().map(|(i, _)| *i).collect();
        assert_eq!(now, leaves.iter().map(|(i, _)| *i).collect::<Vec<_>>(), "{server:?}");
    }
    for (server, partitions) in [(5, 15..18), (6, 18..21), (7, 21..24)] {
        let mut owned: Vec<_> =
            directory.owned[&ShardIndex(server)].iter().map(|l| l.0.0).collect();
        owned.sort_unstable();
        assert!(owned.into_iter().eq(partitions));
    }
    for mut client in [old, DirMap::new()] {
        let depth = directory.radix_max();
        for _ in 0..500 {
            assert!(directory.probe(&mut client, Order(rng.u64(..Order::END))) <= depth);
        }
        for partition in directory.partitions.values() {
            directory.probe(&mut client, Order(range(partition.index, partition.radix).start));
        }
        for _ in 0..500 {
            assert_eq!(directory.probe(&mut client, Order(rng.u64(..Order::END))), 0);
        }
    }
}

/// §3.2, property of the hash: names that differ little spread evenly over a directory's
/// partitions, and directories over homes.
#[test]
fn similar_names_spread_evenly() {
    let secrets = Secrets { dir: [3; 32], name: [4; 16] };
    let cluster = ClusterMap::new(16);
    let (mut orders, mut homes) = ([0; 16], [0; 16]);
    for n in 0..32_000 {
        let name = format!("file.{n:08}");
        orders[(secrets.order(name.as_bytes()).0 / (Order::END / 16)) as usize] += 1;
        let name = pando_types::Name::new(name.as_bytes()).expect("a valid name");
        homes[usize::from(cluster.home(secrets.dir_id(DirId::ROOT, &name, 0)).0)] += 1;
    }
    assert!(orders.iter().all(|count| (1_800..2_200).contains(count)), "{orders:?}");
    assert!(homes.iter().all(|count| (1_600..2_400).contains(count)), "{homes:?}");
}
