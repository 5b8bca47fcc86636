//! Workloads by system calls, on the file system that holds temporary files.

use std::fs;

use pando_bench::mount::{self, Workers};
use pando_bench::pairs;
use pando_bench::{BenchError, Layout, Order, Phase, Silent, Watch, Workload};

fn workload(clients: u32, layout: Layout) -> Workload {
    Workload {
        clients,
        files: 100,
        depth: 3,
        layout,
        phases: Phase::ALL.to_vec(),
        order: Order::Random,
        seed: 7,
    }
}

#[test]
fn all_phases_run_and_nothing_stays() {
    let target = tempfile::tempdir().unwrap();
    for (clients, layout) in [(1, Layout::Shared), (3, Layout::Shared), (3, Layout::Unique)] {
        let workload = workload(clients, layout);
        let report = mount::run(target.path(), &workload, Workers::Threads, &Silent).unwrap();
        for phase in &report.phases {
            assert_eq!(phase.operations, workload.operations(phase.phase));
            assert!(phase.ops_per_second > 0.0 && phase.latency_micros.max > 0.0);
        }
        assert_eq!(report.phases.len(), 4);
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
    }
}

#[test]
fn pairs_have_a_ratio_each() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (workload, mut told) = (workload(2, Layout::Shared), Vec::new());
    let hear = |pair| told.push(pair);
    let (workers, watch) = (Workers::Threads, &Silent);
    let report = pairs::run(a.path(), b.path(), &workload, 3, workers, watch, hear).unwrap();
    assert_eq!(told, [0, 1, 2, 3]);
    for phase in &report.phases {
        assert_eq!(phase.ratios.len(), 3);
        assert!(phase.ratio.min <= phase.ratio.median && phase.ratio.median <= phase.ratio.max);
    }
}

/// Calls a function when a phase begins.
struct Meddler<F>(F);

impl<F: Fn(&str) + Sync> Watch for Meddler<F> {
    fn begin(&self, what: &str, _total: u64) {
        (self.0)(what);
    }
    fn advance(&self, _done: u64) {}
    fn end(&self) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

#[test]
fn what_others_do_to_the_files_is_noticed_and_all_is_removed() {
    for (meddled, word) in [("stat", "stat"), ("readdir", "99 entries"), ("unlink", "unlink")] {
        let target = tempfile::tempdir().unwrap();
        let path = target.path().to_owned();
        let watch = Meddler(move |what: &str| {
            if what == meddled {
                let run = fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
                fs::remove_file(run.join("d/d/c0000-00000012")).unwrap();
            }
        });
        let workload = workload(1, Layout::Shared);
        let error = mount::run(target.path(), &workload, Workers::Threads, &watch).unwrap_err();
        let BenchError::Worker { client: 0, what } = &error else { panic!("{error}") };
        assert!(what.contains(word), "{what}");
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_target_that_is_no_directory_is_named() {
    let target = tempfile::NamedTempFile::new().unwrap();
    let workload = workload(1, Layout::Shared);
    for path in [target.path(), &target.path().with_extension("missing")] {
        let error = mount::run(path, &workload, Workers::Threads, &Silent).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}
