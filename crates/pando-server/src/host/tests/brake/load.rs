//! What a load meets, and what it does not notice.

use super::*;

#[test]
fn a_load_of_20_limits_keeps_memory_within_its_limit_and_loses_nothing() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let mut stops = 0;
    while site.sequence < (20 * LIMIT / VALUE) as u64 {
        let call = site.fill();
        stops += 1;
        let last = site.sequence;
        assert!(!site.has(last));
        let status = site.host.status().swap_remove(0);
        let reason = status.pressure.expect("writers are stopped");
        assert!(reason.starts_with("writers wait until a checkpoint ends: "), "{reason}");
        assert_eq!((status.braked, site.host.figures()[0].pressure), (1, 2.0));
        site.what_frees_passes();
        site.judge();
        disk.set(Gate::Open);
        assert_eq!(answer(call), Some(Ok(Body::Done)));
        assert!(site.has(last));
        site.judge();
        disk.set(Gate::Closed);
    }
    assert!(stops > 10 && site.counter("slowed") > stops, "{stops} stops");
    assert!(site.counter("braked_nanos") > 0);
    disk.set(Gate::Open);
    let handled = site.handled.lock().unwrap().clone();
    assert!(handled.iter().all(|it| !it.is_full));
    until("no pressure", || site.host.status()[0].pressure.is_none());
    drop(site.host);
    let host = host_over(Arc::new(disk.clone()), &site.handled);
    let cell = host.shared.cell(ONE).unwrap();
    for Handled { sequence, takes_space, .. } in handled {
        let found = cell.lock().store.get(&sequence.to_be_bytes()).unwrap();
        assert_eq!(found.is_some(), takes_space, "{sequence}");
    }
}

/// What is left before the store is asked again goes down by what is written, and by nothing else.
#[test]
fn a_shard_without_pressure_does_not_ask_its_store() {
    let (machine, options) = (|| Keeping(Noted::default()), HostOptions::default());
    let (host, _) = crate::host::tests::full::start_over(machine);
    let cell = host.shared.cell(ONE).unwrap();
    let ask = |n| block_on(host.call(ONE, request(n, create("a")))).unwrap();
    // The shard is released before it is asked.
    let left = || cell.lock().brake.left;
    assert_eq!(left(), 0);
    assert_eq!(ask(1).result, Ok(Body::Done));
    let before = left();
    assert!(before > options.checkpoint_bytes as u64 / 2);
    (2..=1_001).for_each(|n| drop(ask(n)));
    let write = Write::Put(vec![0; 8], vec![7; VALUE]);
    let bytes = crate::store::group::weigh(&[write]);
    assert_eq!(before - left(), 1_000 * bytes);
    assert_eq!([counter(&cell, "slowed"), counter(&cell, "stopped")], [0, 0]);
}

#[test]
fn stopped_requests_go_on_in_their_order() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let mut calls = vec![site.fill()];
    let first = site.sequence;
    calls.extend((0..20).map(|_| site.stopped()));
    disk.set(Gate::Open);
    for call in calls {
        assert_eq!(answer(call), Some(Ok(Body::Done)));
    }
    let handled = site.handled.lock().unwrap();
    let late = handled.iter().map(|it| it.sequence).filter(|sequence| *sequence >= first);
    assert!(late.eq(first..=site.sequence));
}

#[test]
fn a_repetition_takes_the_place_of_a_stopped_request_which_runs_once() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let mut first = site.fill();
    let mut again = site.host.call(ONE, request(site.sequence, create("a")));
    assert_eq!(is_answered(&mut again), None);
    // Whether the first copy has run is unknown to its caller, as after a lost connection.
    assert_eq!(is_answered(&mut first), Some(None));
    disk.set(Gate::Open);
    assert_eq!(answer(again), Some(Ok(Body::Done)));
    let handled = site.handled.lock().unwrap();
    assert_eq!(handled.iter().filter(|it| it.sequence == site.sequence).count(), 1);
}

/// The thread that calls at once does not wait: it gets a future, as all others.
#[test]
fn a_caller_that_runs_the_shard_does_not_wait_in_it() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let stopped = site.fill();
    site.sequence += 1;
    let own = Box::new(request(site.sequence, create("a")));
    let AtOnce::Later(mut own) = site.host.call_at_once(ONE, own) else { panic!("it ran") };
    assert_eq!((is_answered(&mut own), site.host.status()[0].braked), (None, 2));
    disk.set(Gate::Open);
    assert_eq!([answer(stopped), answer(own)], [Some(Ok(Body::Done)), Some(Ok(Body::Done))]);
}
