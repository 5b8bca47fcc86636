//! Runs every workload with every engine on a thousand records.

use std::path::Path;

use bench_engines::charts;
use bench_engines::job::Order;
use bench_engines::plan::{self, Choice, Scale};
use bench_engines::report::Results;
use bench_engines::runner::Runner;
use bench_engines::store::{Engine, Variant};

#[test]
fn every_engine_does_every_workload() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Runner {
        program: env!("CARGO_BIN_EXE_bench-engines").into(),
        folder: folder.path().join("databases"),
        repeat: 1,
    };
    let choice =
        Choice { workloads: Vec::new(), engines: Vec::new(), batch: 1, order: Order::Random };
    let rounds = plan::rounds(&Scale::tiny(), &choice);
    let mut results = Results::default();
    for (number, round) in rounds.iter().enumerate() {
        runner.round(&round.jobs, number, &mut results);
    }
    assert_eq!(results.failed, Vec::<String>::new());
    // fjall has no snapshot that outlives its process.
    assert_eq!(results.unsupported, ["snapshot fjall"]);
    let jobs: usize = rounds.iter().map(|round| round.jobs.len()).sum();
    assert_eq!(results.rows.len(), jobs - results.unsupported.len());
    // Cold lookups measure the space on disk.
    let plain = Engine::all().iter().filter(|engine| engine.variant() == Variant::Plain);
    assert_eq!(results.disk.len(), plain.count());
    assert_eq!(results.memory.len(), Engine::all().len());
    assert_eq!(results.write_amplification.len(), results.disk.len());
    for steady in &results.write_amplification {
        assert!((3.0..12.0).contains(&steady.changes_per_record.unwrap()), "{steady:?}");
        assert!(steady.ratio > 0.1 && steady.space.as_ref().unwrap().ratio > 0.3, "{steady:?}");
        assert!(steady.read_bytes_per_lookup.is_some(), "{steady:?}");
    }
    assert!(results.rows.iter().all(|row| row.ops_per_s > 0.0));
    let left: Vec<_> = std::fs::read_dir(&runner.folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    results.judge();
    assert!(results.bars.len() > 10);
    let rows_of_babu = results.rows.iter().filter(|row| row.engine == "babu").count();
    assert_eq!(results.ratios.len(), rows_of_babu);
    let text = serde_json::to_string(&results).unwrap();
    let read: Results = serde_json::from_str(&text).unwrap();
    charts::draw(&read, &folder.path().join("charts")).unwrap();
    for name in ["engines-trees.svg", "engines-mixed.svg"] {
        let chart = std::fs::read_to_string(folder.path().join("charts").join(name)).unwrap();
        assert!(chart.contains("<svg") && chart.contains("babu"), "{name}");
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "somebody's").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_bench-engines"));
    let mut command = std::process::Command::new(program);
    let output = command.arg("--quick").arg("--folder").arg(folder.path()).output().unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("is not empty"), "{message}");
    assert!(folder.path().join("file").exists());
}
