use super::*;
use crate::repro::directory::Rules;
use crate::repro::tests::COSTS;

fn setup(servers: u16, splitting: Splitting) -> Setup {
    Setup {
        rules: Rules { servers, per_server: 1, threshold: 800, is_jittered: false },
        splitting,
        clients: u32::from(servers),
        processes: 8,
        files: 40_000 * u64::from(servers),
        costs: COSTS,
        window: 1_000_000,
        seed: 1,
    }
}

#[test]
fn one_seed_gives_one_result_and_another_another() {
    let first = run(&setup(5, Splitting::Live));
    assert_eq!(first, run(&setup(5, Splitting::Live)));
    assert_ne!(first, run(&Setup { seed: 2, ..setup(5, Splitting::Live) }));
}

#[test]
fn every_file_is_made_and_every_partition_found() {
    for splitting in [Splitting::Live, Splitting::Locked] {
        for servers in [1, 2, 5, 8] {
            let setup = setup(servers, splitting);
            let report = run(&setup);
            assert_eq!(report.files, setup.files);
            assert_eq!(report.partitions, usize::from(servers));
            assert_eq!(report.moved.splits_away, u64::from(servers) - 1);
            let counted: f64 = report.windows.iter().map(|w| w.rate * 1e-3).sum();
            assert!(counted <= setup.files as f64 && counted > setup.files as f64 * 0.98);
        }
    }
}

/// A single server is limited by the cost of its creates. With enough processes it is never idle.
#[test]
fn a_single_server_is_as_fast_as_its_creates() {
    let report = run(&Setup { processes: 64, ..setup(1, Splitting::Live) });
    let most = 1e9 / COSTS.create as f64;
    assert!(report.rate() <= most && report.rate() > 0.97 * most, "{}", report.rate());
    // With one process, no steps overlap.
    let report = run(&Setup { processes: 1, ..setup(1, Splitting::Live) });
    let each = (COSTS.create + COSTS.client + 2 * COSTS.hop) as f64;
    assert!((report.rate() * each / 1e9 - 1.0).abs() < 0.01, "{}", report.rate());
}

/// §5.1, Figure 4: more servers, more creates.
#[test]
fn rates_grow_with_the_servers() {
    let rates: Vec<_> = [1, 2, 4, 8, 16].map(|n| run(&setup(n, Splitting::Live)).rate()).into();
    for pair in rates.windows(2) {
        assert!(pair[1] > 1.5 * pair[0], "{rates:?}");
    }
}

/// §5.2, Figure 5: with locked splits, a directory stops while all its partitions split. With live
/// splits it does not.
#[test]
fn locked_splits_stop_the_directory_and_live_ones_do_not() {
    let [locked, live] = [Splitting::Locked, Splitting::Live].map(|splitting| {
        let mut setup = setup(8, splitting);
        setup.rules.threshold = 4_000;
        run(&setup)
    });
    let one = run(&setup(1, Splitting::Live)).rate_grown();
    assert!(locked.rate_lowest() < 0.1 * one, "{}", locked.rate_lowest());
    assert!(live.rate_lowest() > 0.5 * one, "{} of {one}", live.rate_lowest());
    assert!(locked.seconds > live.seconds && locked.waited > live.waited);
    assert!(live.closed_longest < locked.closed_longest);
}

/// §5.4: requests to wrong servers are few, and end with the splits.
#[test]
fn clients_learn_from_those_they_ask_wrongly() {
    let report = run(&setup(8, Splitting::Live));
    assert!(report.astray > 0 && report.astray < 8 * 8 * 8 + report.waited * 2, "{report:?}");
}

#[test]
fn splits_within_a_server_take_its_time() {
    let mut setup = setup(1, Splitting::Live);
    let one = run(&setup);
    setup.rules.per_server = u16::MAX;
    let many = run(&setup);
    assert!(many.moved.splits_here > 50 && many.moved.splits_away == 0);
    assert!(many.seconds > one.seconds);
}
