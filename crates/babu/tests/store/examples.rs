//! The examples that the README names run, and do what it says.

use std::path::PathBuf;
use std::sync::Arc;

use babu::MemDisk;

#[path = "../../examples/amplification.rs"]
#[allow(dead_code, reason = "an example has a main of its own")]
mod amplification;
#[path = "../../examples/tour.rs"]
#[allow(dead_code, reason = "an example has a main of its own")]
mod tour;

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("babu-examples-{name}-{}", std::process::id()))
}

#[test]
fn the_tour_runs_twice_in_the_same_folder() {
    let folder = folder("tour");
    for _ in 0..2 {
        tour::tour(&folder).unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_a_steady_load_costs_is_measured_and_within_what_the_readme_says() {
    let disk = MemDisk::new();
    let load = amplification::Load { records: 8000, times: 10, group: 1 };
    let figures = amplification::measure(&|| Ok(Arc::new(disk.clone())), load).unwrap();
    assert!(figures.rounds >= 8, "{figures:?}");
    // Each change is written once to the log, and at least once to index files.
    assert!((1.5..4.0).contains(&figures.write), "{figures:?}");
    assert!((0.3..2.0).contains(&figures.space), "{figures:?}");
    // A lookup of a key costs its block, and sometimes one that a filter did not deny.
    assert!((0.9..1.1).contains(&figures.present), "{figures:?}");
    assert!(figures.absent < 0.03, "{figures:?}");
    // Files are small here, so the few hundred bytes that each takes by itself matter. Filters of
    // runs have 20 bits a key, and an entry may be in a run and in the bottom.
    assert!((1.25..5.0).contains(&figures.resident), "{figures:?}");
}
