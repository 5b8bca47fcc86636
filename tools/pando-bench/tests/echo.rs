//! A short exchange of frames.

use std::time::Duration;

use pando_bench::Silent;
use pando_bench::echo::{self, Load, Socket};

#[test]
fn every_usual_load_runs() {
    for load in Load::USUAL {
        let report = echo::run(load, Duration::from_millis(20), &Silent).unwrap();
        assert!(report.frames >= u64::from(load.outstanding), "{report:?}");
        assert!(report.latency_micros.p50 > 0.0, "{report:?}");
    }
}

#[test]
fn windows_that_do_not_divide_evenly_are_used_whole() {
    let load = Load { socket: Socket::Unix, outstanding: 2_000, connections: 3 };
    let report = echo::run(load, Duration::from_millis(20), &Silent).unwrap();
    assert!(report.frames >= 2_000, "{report:?}");
}

#[test]
fn a_connection_with_nothing_to_send_is_refused() {
    let load = Load { socket: Socket::Tcp, outstanding: 1, connections: 2 };
    let error = echo::run(load, Duration::from_millis(1), &Silent).unwrap_err();
    assert!(error.to_string().contains("fewer connections"), "{error}");
}

#[test]
fn a_relay_adds_its_round_trip_to_each_frame_and_loses_none() {
    let load = Load { socket: Socket::Tcp, outstanding: 8, connections: 2 };
    let added = Duration::from_millis(2);
    let report = echo::relayed(load, added, Duration::from_millis(30), &Silent).unwrap();
    assert!(report.frames >= 8, "{report:?}");
    assert!(report.latency_micros.p50 >= 1_990.0, "{report:?}");
}
