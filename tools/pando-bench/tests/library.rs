//! Workloads through the client library, on shards in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_bench::library::{self, Naming, Settings};
use pando_bench::mix::{Mix, MixReport};
use pando_bench::{BenchError, Layout, Order, Phase, Report, Silent, Watch, Workload};
use pando_client::path::Paths;
use pando_client::{BoxFuture, Calling, Client, Transport, TransportError, Volume, block_on};
use pando_server::host::{HostOptions, format_shard};
use pando_server::{Folder, Host, Superblock};
use pando_types::op::{Op, Request};
use pando_types::reply::{Body, Found, Refusal, Reply};
use pando_types::{Credentials, Errno, ShardIndex};

/// Changes the reply to an operation.
type Meddle = fn(&Op, &mut Reply);

/// A volume of three shards, with a transport that may change replies.
struct Cluster {
    host: Host,
    meddle: Meddle,
    _folder: tempfile::TempDir,
}

impl Transport for Cluster {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        Calling::waiting(async move {
            let op = request.op.clone();
            let mut reply = self.host.call(shard, request).await.ok_or(TransportError::Stopped)?;
            (self.meddle)(&op, &mut reply);
            Ok(reply)
        })
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        Box::pin(self.host.sleep(nanos))
    }

    fn now_nanos(&self) -> u64 {
        self.host.now_nanos()
    }
}

fn cluster(meddle: Meddle) -> (Arc<Cluster>, Volume) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::new(&temporary.path().join("volume")).unwrap();
    let superblock = Superblock::new(3, 1).unwrap();
    folder.format(&superblock, |shard, path| format_shard(&superblock, shard, path)).unwrap();
    let options = HostOptions { split_threshold: 50, ..HostOptions::default() };
    let (host, _) = Host::start(&folder, &superblock, &options, &superblock.all_shards()).unwrap();
    let volume =
        Volume { id: superblock.id(), secrets: superblock.secrets(), map: superblock.map() };
    (Arc::new(Cluster { host, meddle, _folder: temporary }), volume)
}

fn workload(clients: u32, layout: Layout) -> Workload {
    Workload {
        clients,
        files: 301,
        depth: 3,
        layout,
        phases: Phase::ALL.to_vec(),
        order: Order::Random,
        seed: 7,
    }
}

fn settings(naming: Naming) -> Settings {
    Settings { in_flight: 5, naming, keep: false }
}

fn run(
    (cluster, volume): &(Arc<Cluster>, Volume),
    workload: &Workload,
    settings: Settings,
    watch: &dyn Watch,
) -> Result<Report, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(library::run(cluster.clone(), volume.clone(), workload, settings, watch))
}

/// Number of names in the root of the volume.
fn left((cluster, volume): &(Arc<Cluster>, Volume)) -> usize {
    block_on(async {
        let client = Client::connect(cluster.clone(), volume.clone()).await.unwrap();
        Paths::new(&client, Credentials::ROOT).readdir(b"/").await.unwrap().len()
    })
}

#[test]
fn all_phases_run_and_nothing_stays() {
    let cluster = cluster(|_, _| {});
    for naming in [Naming::Path, Naming::Handle] {
        for (clients, layout) in [(1, Layout::Shared), (3, Layout::Shared), (3, Layout::Unique)] {
            let workload = workload(clients, layout);
            let report = run(&cluster, &workload, settings(naming), &Silent).unwrap();
            assert_eq!(report.phases.len(), 4);
            for phase in &report.phases {
                assert_eq!(phase.operations, workload.operations(phase.phase));
                assert!(phase.ops_per_second > 0.0 && phase.latency_micros.max > 0.0);
            }
            assert_eq!(left(&cluster), 0);
        }
    }
}

#[test]
fn a_handle_saves_the_walk_and_so_does_a_way_that_is_remembered() {
    let cluster = cluster(|_, _| {});
    let workload = Workload { files: 40, ..workload(1, Layout::Shared) };
    let requests = |naming| {
        let report = run(&cluster, &workload, settings(naming), &Silent).unwrap();
        let per = |phase: usize| report.phases[phase].requests_per_operation.unwrap();
        [per(0), per(1), per(3)]
    };
    assert_eq!(requests(Naming::Handle), [1.0; 3]);
    // The first call resolves the path with one guess for all of its components.
    let [create, stat, unlink] = requests(Naming::Path);
    assert!((1.0..1.1).contains(&create), "{create}");
    assert_eq!([stat, unlink], [1.0; 2]);
}

#[test]
fn what_no_phase_removes_is_removed_in_the_end() {
    let cluster = cluster(|_, _| {});
    let mut workload = workload(2, Layout::Unique);
    workload.phases = vec![Phase::Create];
    run(&cluster, &workload, settings(Naming::Path), &Silent).unwrap();
    assert_eq!(left(&cluster), 0);
    run(&cluster, &workload, Settings { keep: true, ..settings(Naming::Path) }, &Silent).unwrap();
    assert_eq!(left(&cluster), 1);
}

#[test]
fn a_wrong_answer_ends_the_run_and_is_told() {
    let cases: [(Meddle, &str); 3] = [
        (
            |op, reply| {
                if let (Op::Lookup(..), Ok(Body::Entry(Found::File(attr), _))) =
                    (op, &mut reply.result)
                {
                    attr.ino.0 += 1;
                }
            },
            "WRONG ANSWER in stat",
        ),
        (
            |op, reply| {
                if let (Op::ReadDir { .. }, Ok(Body::Page(page, _))) = (op, &mut reply.result)
                    && page.len() > 20
                {
                    page.remove(3);
                }
            },
            "missing in the listing",
        ),
        (
            |op, reply| {
                if let Op::Create { name, .. } = op
                    && name.as_bytes().ends_with(b"33")
                {
                    reply.result = Err(Refusal::Errno(Errno::ENOSPC));
                }
            },
            "(ENOSPC)",
        ),
    ];
    for (meddle, word) in cases {
        let cluster = cluster(meddle);
        let error = run(&cluster, &workload(2, Layout::Shared), settings(Naming::Path), &Silent);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    struct After(AtomicU64);
    impl Watch for After {
        fn begin(&self, _what: &str, _total: u64) {}
        fn advance(&self, _done: u64) {}
        fn end(&self) {}
        fn is_interrupted(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 100
        }
    }
    let cluster = cluster(|_, _| {});
    let workload = workload(2, Layout::Unique);
    let error = run(&cluster, &workload, settings(Naming::Path), &After(AtomicU64::new(0)));
    assert!(matches!(error, Err(BenchError::Interrupted)), "{error:?}");
    assert_eq!(left(&cluster), 0);
}

#[test]
fn too_many_in_flight_are_refused() {
    let cluster = cluster(|_, _| {});
    let settings = Settings { in_flight: 1025, ..settings(Naming::Path) };
    let error = run(&cluster, &workload(1, Layout::Shared), settings, &Silent).unwrap_err();
    assert!(error.to_string().contains("1 to 1024"), "{error}");
}

fn mix(operations: u64) -> Mix {
    Mix { clients: 2, in_flight: 2, files: 40, per_directory: 8, depth: 5, operations, seed: 7 }
}

fn run_mix(meddle: Meddle, operations: u64) -> Result<MixReport, BenchError> {
    let (cluster, volume) = cluster(meddle);
    let mix = mix(operations);
    let running = pando_bench::mix::run(cluster, volume, &mix, false, &Silent);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(running)
}

#[test]
fn a_mix_of_operations_runs_and_is_compared_to_the_last_entry() {
    let report = run_mix(|_, _| {}, 2_000).unwrap();
    assert_eq!(report.operations, 2_000);
    assert_eq!(report.kinds.iter().map(|kind| kind.count).sum::<u64>(), 2_000);
    assert!(report.kinds[4].count > 100, "renames: {:?}", report.kinds[4]);
    let again = run_mix(|_, _| {}, 2_000).unwrap();
    let counts =
        |report: &MixReport| report.kinds.iter().map(|kind| kind.count).collect::<Vec<_>>();
    assert_eq!(counts(&report), counts(&again));
}

#[test]
fn a_wrong_reply_in_a_mix_is_noticed() {
    let cases: [(Meddle, &str); 3] = [
        (
            |op, reply| {
                if let (Op::Lookup(..), Ok(Body::Entry(Found::File(attr), _))) =
                    (op, &mut reply.result)
                {
                    attr.mode ^= 1;
                }
            },
            "stat",
        ),
        (
            |op, reply| {
                if let (Op::ReadDir { .. }, Ok(Body::Page(entries, _))) = (op, &mut reply.result) {
                    entries.pop();
                }
            },
            "readdir",
        ),
        (
            |op, reply| {
                if let (Op::OpenName { .. }, Ok(Body::Attr(attr))) = (op, &mut reply.result) {
                    attr.size += 1;
                }
            },
            "open/close",
        ),
    ];
    for (meddle, operation) in cases {
        match run_mix(meddle, 2_000) {
            Err(BenchError::WrongReply { operation: found, .. }) => assert_eq!(found, operation),
            Err(BenchError::LeftBehind { cause, .. }) => {
                assert!(
                    matches!(*cause, BenchError::WrongReply { operation: found, .. } if found == operation)
                );
            }
            other => panic!("{operation}: {other:?}"),
        }
    }
}
