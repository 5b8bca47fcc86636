//! Counts requests that reach a server which does not have the name, because the client's map is
//! stale (GIGA+ §5.4, Figure 9).
//!
//! Figures (a) and (b) use the concurrent create workload: as many clients as servers, with eight
//! processes each. The processes of a client share its map, and all take turns. Servers split in no
//! time. Figure (c) has a client that begins after all splits.
//!
//! In (b) and (c) the client is `pando-client` itself. Figure (a) makes over a hundred times as
//! many files, so it uses only the client's map. A test shows that both reach wrong servers equally
//! often.

mod cluster;
mod show;

use pando_client::block_on;
use pando_client::path::Paths;
use pando_placement::DirMap;
use pando_types::{Credentials, Errno, Name, Order};
use serde::Serialize;

use self::cluster::Cluster;
use super::directory::{Directory, Rules, any_order};
use super::stats::median;
use super::{FILES_PER_SERVER, PROCESSES, Size, THRESHOLD};
use crate::{BenchError, Watch};

/// Figure 9(b), (c): "30 servers with 16 partitions per server", the worst case of (a).
const WORST: (u16, u16) = (30, 16);
/// "a new client issuing 10,000 lookups".
const LOOKUPS: u64 = 10_000;

/// Requests that reached wrong servers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Astray {
    /// Number of servers.
    pub servers: u16,
    /// Partitions on each server at which splitting stops.
    pub per_server: u16,
    /// Creates of all clients together.
    pub creates: u64,
    /// Creates that reached a wrong server first.
    pub astray: u64,
    /// Wrong servers that were asked, over all creates.
    pub wrong_probes: u64,
    /// The most wrong servers that one create asked.
    pub worst: u64,
    /// Part of the creates that were done when the last partition split.
    pub last_split: f64,
    /// Part of the creates that were done when the last create reached a wrong server.
    pub last_astray: f64,
}

/// One point of Figure 9(a): clients take turns until each has made `each` files.
#[must_use]
pub fn creates(rules: Rules, each: u64, seed: u64) -> Astray {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut directory = Directory::new(rules);
    // The flag says that the map has all partitions that will ever exist. Such a client always asks
    // the right server.
    let mut clients = vec![(DirMap::new(), false); usize::from(rules.servers)];
    let total = each * u64::from(rules.servers);
    let mut all = Astray {
        servers: rules.servers,
        per_server: rules.per_server,
        creates: total,
        astray: 0,
        wrong_probes: 0,
        worst: 0,
        last_split: 0.0,
        last_astray: 0.0,
    };
    let mut done = 0;
    while done < total && !clients.iter().all(|(_, knows_all)| *knows_all) {
        for (map, knows_all) in &mut clients {
            done += 1;
            if *knows_all {
                continue;
            }
            let order = any_order(&mut rng);
            let wrong = probe(&directory, map, order);
            if wrong > 0 {
                (all.astray, all.wrong_probes) = (all.astray + 1, all.wrong_probes + wrong);
                all.worst = all.worst.max(wrong);
                all.last_astray = done as f64 / total as f64;
            }
            if directory.is_full_grown() {
                *knows_all = map.len() == directory.partitions();
            } else if directory.create(order, &mut rng) > 0 {
                all.last_split = done as f64 / total as f64;
            }
        }
    }
    all
}

/// Counts the wrong servers that a client asks before the right one. Its map learns from each. From
/// the right one it learns the depth of the partition.
fn probe(directory: &Directory, map: &mut DirMap, order: Order) -> u64 {
    let owner = directory.locate(order).1;
    for wrong in 0.. {
        let server = map.shard(directory.home(), map.locate(order).0);
        if server == owner {
            if let Some(told) = map.deeper(order, directory.radix(order)) {
                map.merge(&told);
            }
            return wrong;
        }
        assert!(map.merge(&directory.told_by(server)), "who is sent on learns something");
    }
    unreachable!("a client learns a partition each time, and there are so many only")
}

/// Figure 9(b): the creates of one process of a client.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OneProcess {
    /// Number of files that it made.
    pub files: u64,
    /// Creates that reached a wrong server: the number of the create, from 1, and how many wrong
    /// servers it asked.
    pub astray: Vec<(u64, u64)>,
    /// Counts over all processes of all clients.
    pub all: Astray,
}

/// Runs the concurrent create workload with real clients. The first process of the first client is
/// reported.
pub fn one_process(
    rules: Rules,
    files: u64,
    seed: u64,
    watch: &dyn Watch,
) -> Result<OneProcess, BenchError> {
    let cluster = Cluster::new(rules, seed);
    let clients: Vec<_> = (0..rules.servers).map(|_| cluster.client()).collect::<Result<_, _>>()?;
    let mut dirs = Vec::new();
    for client in &clients {
        let dir = block_on(Paths::new(client, Credentials::ROOT).dir(b"/"));
        dirs.push(dir.map_err(BenchError::operation("opening", b"/"))?);
    }
    cluster.take_requests();
    let total = files * u64::from(PROCESSES) * clients.len() as u64;
    let (servers, per_server) = (rules.servers, rules.per_server);
    let mut all = Astray {
        servers,
        per_server,
        creates: total,
        astray: 0,
        wrong_probes: 0,
        worst: 0,
        last_split: 0.0,
        last_astray: 0.0,
    };
    let (mut mine, mut done) = (Vec::new(), 0);
    watch.begin("create", total);
    for file in 1..=files {
        for process in 0..PROCESSES {
            for (client, dir) in dirs.iter().enumerate() {
                let text = format!("{client}.{process}.{file}");
                let name = Name::new(text.as_bytes())
                    .map_err(BenchError::operation("naming", text.as_bytes()))?;
                block_on(dir.create(&name, 0o644))
                    .map_err(BenchError::operation("creating", text.as_bytes()))?;
                done += 1;
                let wrong = cluster.take_requests() - 1;
                if wrong > 0 {
                    (all.astray, all.wrong_probes) = (all.astray + 1, all.wrong_probes + wrong);
                    all.worst = all.worst.max(wrong);
                    all.last_astray = done as f64 / total as f64;
                    if (client, process) == (0, 0) {
                        mine.push((file, wrong));
                    }
                }
                if cluster.take_splits() > 0 {
                    all.last_split = done as f64 / total as f64;
                }
            }
        }
        watch.advance(done);
        if watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
    }
    watch.end();
    Ok(OneProcess { files, astray: mine, all })
}

/// Figure 9(c): new clients that use the grown directory one after another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NewClients {
    /// Number of clients. Each looks up names of its own.
    pub clients: u64,
    /// Lookups of each client.
    pub lookups: u64,
    /// Number of partitions of the directory.
    pub partitions: usize,
    /// For each client: the most wrong servers for one lookup, their sum over all lookups, and the
    /// last lookup that reached one, from 1.
    pub runs: Vec<(u64, u64, u64)>,
    /// Lookups of the first client that reached a wrong server: the number of the lookup, from 1,
    /// and how many it asked.
    pub first: Vec<(u64, u64)>,
}

/// Measures `clients` new clients, one after another.
pub fn new_clients(rules: Rules, clients: u64, seed: u64) -> Result<NewClients, BenchError> {
    let cluster = Cluster::new(rules, seed);
    cluster.grow_up();
    let partitions = cluster.directory().partitions();
    let (mut runs, mut first) = (Vec::new(), Vec::new());
    for run in 0..clients {
        let client = cluster.client()?;
        let dir = block_on(Paths::new(&client, Credentials::ROOT).dir(b"/"))
            .map_err(BenchError::operation("opening", b"/"))?;
        cluster.take_requests();
        let (mut worst, mut total, mut last) = (0, 0, 0);
        for lookup in 1..=LOOKUPS {
            let text = format!("{run}.{lookup}");
            let name = Name::new(text.as_bytes())
                .map_err(BenchError::operation("naming", text.as_bytes()))?;
            match block_on(dir.stat(&name)) {
                Err(Errno::ENOENT) => {}
                Ok(_) => {
                    let what = BenchError::operation(
                        "looking up a file that was never made",
                        text.as_bytes(),
                    );
                    return Err(what(Errno::EEXIST));
                }
                Err(errno) => {
                    return Err(BenchError::operation("looking up", text.as_bytes())(errno));
                }
            }
            let wrong = cluster.take_requests() - 1;
            if wrong > 0 {
                (worst, total, last) = (worst.max(wrong), total + wrong, lookup);
                if run == 0 {
                    first.push((lookup, wrong));
                }
            }
        }
        runs.push((worst, total, last));
    }
    Ok(NewClients { clients, lookups: LOOKUPS, partitions, runs, first })
}

impl NewClients {
    /// Medians over clients of the three figures in `runs`: worst lookup, all wrong servers, and
    /// last wrong lookup.
    #[must_use]
    pub fn medians(&self) -> [f64; 3] {
        let of = |which: &dyn Fn(&(u64, u64, u64)) -> u64| {
            median(self.runs.iter().map(|run| which(run) as f64).collect())
        };
        [of(&|run| run.0), of(&|run| run.1), of(&|run| run.2)]
    }
}

/// All parts of Figure 9.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Addressing {
    /// Files and split threshold, as a part of the paper's.
    pub scale: f64,
    /// Figure 9(a).
    pub creates: Vec<Astray>,
    /// Figure 9(b).
    pub process: OneProcess,
    /// Figure 9(c).
    pub new_clients: NewClients,
}

/// Computes all parts of Figure 9.
pub fn run(size: Size, seed: u64, watch: &dyn Watch) -> Result<Addressing, BenchError> {
    let (part, clusters, policies, clients): (u64, &[u16], &[u16], _) = match size {
        Size::Full => (1, &[1, 2, 4, 8, 12, 16, 20, 24, 28, 30, 32], &[1, 4, 8, 16], 100),
        Size::Quick => (10, &[1, 2, 4, 8, 12, 16, 24, 30, 32], &[1, 4, 8, 16], 20),
        Size::Tiny => (50, &[2, 6, 8], &[1, 4], 3),
    };
    let rules = |servers, per_server| Rules {
        servers,
        per_server,
        threshold: THRESHOLD / part,
        is_jittered: false,
    };
    let mut points = Vec::new();
    let total = clusters.len() * policies.len();
    watch.begin("clusters", total as u64);
    for per_server in policies {
        for servers in clusters {
            let each = FILES_PER_SERVER / part;
            points.push(creates(rules(*servers, *per_server), each, seed));
            watch.advance(points.len() as u64);
            if watch.is_interrupted() {
                return Err(BenchError::Interrupted);
            }
        }
    }
    watch.end();
    let (servers, per_server) = if size == Size::Tiny { (6, 4) } else { WORST };
    let files = FILES_PER_SERVER / u64::from(PROCESSES) / part;
    let process = one_process(rules(servers, per_server), files, seed, watch)?;
    let new_clients = new_clients(rules(servers, per_server), clients, seed)?;
    Ok(Addressing { scale: 1.0 / part as f64, creates: points, process, new_clients })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn rules(servers: u16, per_server: u16, threshold: u64) -> Rules {
        Rules { servers, per_server, threshold, is_jittered: false }
    }

    /// §5.4: fewer than 0.05 % with the paper's numbers. Files and threshold are an eighth of those
    /// here. The number of wrong creates stays, so their share may be 0.4 %. It grows with the
    /// number of partitions, and is zero for a single server.
    #[test]
    fn few_go_astray_and_only_while_the_directory_splits() {
        let point = |servers, per_server| creates(rules(servers, per_server, 1_000), 50_000, 1);
        assert_eq!(point(1, 4).astray, 0);
        let (one, many, worst) = (point(6, 1), point(6, 8), point(30, 16));
        assert!(one.astray < many.astray, "{one:?} {many:?}");
        for point in [one, many, worst] {
            assert!(point.astray * 10_000 < point.creates * 40, "{point:?}");
            assert!(point.last_astray < 0.5 && point.last_split < 0.3, "{point:?}");
        }
    }

    /// The map alone, as in (a), reaches wrong servers as often as the real client.
    #[test]
    fn the_real_client_goes_astray_as_often_as_its_map() {
        for (servers, per_server) in [(3, 4), (8, 1), (6, 8)] {
            let rules = rules(servers, per_server, 60);
            let real = one_process(rules, 100, 7, &Silent).unwrap();
            // The run below uses these names in this order.
            let cluster = Cluster::new(rules, 7);
            let mut directory = cluster.directory();
            let mut rng = fastrand::Rng::with_seed(7);
            let mut maps = vec![DirMap::new(); usize::from(servers)];
            let (mut astray, mut wrong_probes) = (0, 0);
            for file in 1..=100 {
                for process in 0..PROCESSES {
                    for (client, map) in maps.iter_mut().enumerate() {
                        let name = format!("{client}.{process}.{file}");
                        let order = cluster.secrets().order(name.as_bytes());
                        let wrong = probe(&directory, map, order);
                        (astray, wrong_probes) =
                            (astray + u64::from(wrong > 0), wrong_probes + wrong);
                        directory.create(order, &mut rng);
                    }
                }
            }
            assert_eq!((real.all.astray, real.all.wrong_probes), (astray, wrong_probes));
            assert!(astray > 0);
        }
    }

    /// §5.4, Figure 9(b): errors come in bursts, some creates ask two wrong servers, and the errors
    /// end.
    #[test]
    fn errors_of_one_process_end_once_splitting_stops() {
        let one = one_process(rules(6, 4, 100), 500, 2, &Silent).unwrap();
        assert!(one.all.last_split < 0.5 && one.all.last_astray < 0.8, "{:?}", one.all);
        assert!(one.all.worst <= 4 && one.all.astray > 20, "{:?}", one.all);
        assert!(
            one.astray.iter().filter(|(_, wrong)| *wrong == 1).count() * 10 >= one.astray.len() * 8
        );
    }

    /// §5.4, Figure 9(c).
    #[test]
    fn a_new_client_soon_knows_its_way() {
        let new = new_clients(rules(30, 16, 1_000), 9, 3).unwrap();
        assert_eq!(new.partitions, 480);
        let [worst, total, last] = new.medians();
        assert!(worst <= 3.0 && total <= 30.0 && last <= 300.0, "{worst} {total} {last}");
        assert!(new.runs.iter().all(|(worst, ..)| *worst <= 10), "the depth of the tree, and one");
    }

    #[test]
    fn one_seed_gives_one_result() {
        let all = || run(Size::Tiny, 5, &Silent).unwrap();
        assert_eq!(all(), all());
        assert_eq!(all().figure().tables.len(), 3);
    }
}
