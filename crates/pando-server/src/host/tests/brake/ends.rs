//! How a wait ends when checkpoints fail, shards stop or go, or a sync is under way.

use std::sync::atomic::AtomicU64;

use pando_wire::MoveToken;

use super::*;

#[test]
fn a_checkpoint_that_fails_lets_writers_go_on_as_on_a_full_disk() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let calls = [site.fill(), site.stopped(), site.stopped()];
    let full = Some(Err(Refusal::Errno(Errno::ENOSPC)));
    disk.set(Gate::Full);
    for call in calls {
        assert_eq!(answer(call), full);
    }
    let reason = site.host.status().swap_remove(0).pressure.unwrap();
    assert!(reason.starts_with("writers get ENOSPC: "), "{reason}");
    site.what_frees_passes();
    site.judge();
    // Each attempt fails, and no writer waits for ever.
    (0..10).for_each(|_| assert_eq!(site.ask(create("b")), full));
    disk.set(Gate::Open);
    until("a checkpoint", || site.ask(create("b")) == Some(Ok(Body::Done)));
    assert!(site.counter("run_as_full") >= 13);
    let handled = site.handled.lock().unwrap();
    assert_eq!(handled.iter().filter(|it| it.is_full).count() as u64, site.counter("run_as_full"));
}

#[test]
fn a_shard_that_fails_answers_stopped_requests() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let calls = [site.fill(), site.stopped()];
    site.cell().fail("the test says so");
    site.host.shared.wake(ONE);
    for call in calls {
        assert_eq!(answer(call), Some(Err(Refusal::Errno(Errno::EIO))));
    }
}

#[test]
fn a_host_that_stops_ends_stopped_requests_without_a_reply() {
    let mut site = site();
    let disk = site.disk.clone();
    let opened = Opened(&disk);
    let mut calls = [site.fill(), site.stopped()];
    site.cell().abandon();
    for call in &mut calls {
        assert_eq!(is_answered(call), Some(None));
    }
    drop(opened);
    let parked = site.sequence;
    drop(site.host);
    assert!(site.handled.lock().unwrap().iter().all(|it| it.sequence < parked - 1));
}

#[test]
fn a_shard_that_freezes_keeps_stopped_requests_until_it_thaws_or_goes() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let (one, two) = (MoveToken([1; 16]), MoveToken([2; 16]));
    let mut call = site.fill();
    let frozen = |token| {
        let from = site.host.follow(ONE, token, None).unwrap().last;
        site.host.freeze(ONE, token, from).unwrap()
    };
    frozen(one);
    site.host.keep(ONE, one, "the test says so");
    assert_eq!(is_answered(&mut call), None);
    let last = frozen(two);
    site.host.give_away(ONE, two, (last.epoch, last.last), || Ok(())).unwrap();
    assert_eq!(is_answered(&mut call), Some(None));
    assert!(site.handled.lock().unwrap().iter().all(|it| it.sequence < site.sequence));
}

/// A process that is killed has lost what was parked, and nothing that was answered.
#[test]
fn a_kill_loses_stopped_requests_alone() {
    let mut site = site();
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let mut call = site.fill();
    let killed = disk.disk.crash_process();
    assert_eq!(is_answered(&mut call), None);
    let handled = Noted::default();
    let host = host_over(Arc::new(killed), &handled);
    let cell = host.shared.cell(ONE).unwrap();
    let has = |n: u64| cell.lock().store.get(&n.to_be_bytes()).unwrap().is_some();
    assert!((1..site.sequence).all(has) && !has(site.sequence));
    // The repetition runs there.
    let again = block_on(host.call(ONE, request(site.sequence, create("a")))).unwrap();
    assert_eq!((again.result, has(site.sequence)), (Ok(Body::Done), true));
}

/// A clock of timers that the test sets.
#[derive(Default)]
struct Held(AtomicU64);

impl crate::clock::Time for Held {
    fn mono(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wall(&self) -> u64 {
        NOON
    }
}

/// A parked request that names an object must not run while a sync goes on.
#[test]
fn a_parked_request_that_names_an_object_waits_for_a_sync_as_well() {
    let clock = Arc::new(Held::default());
    let mut site = site_at(clock.clone());
    let disk = site.disk.clone();
    let _opened = Opened(&disk);
    let (began, begun) = mpsc::channel();
    let (go_on, may_sync) = mpsc::channel::<()>();
    let channel = Mutex::new((began, may_sync));
    site.host.set_before_sync(Box::new(move || {
        let channel = channel.lock().unwrap();
        // Errors mean that the test is over.
        let _ = (channel.0.send(()), channel.1.recv());
        Ok(())
    }));
    while site.counter("slowed") == 0 {
        let mut call = site.call(create("a"));
        let _ = is_answered(&mut call);
    }
    let mut write = site.call(write_of_an_object());
    assert_eq!(is_answered(&mut write), None);
    begun.recv().unwrap();
    clock.0.store(1_000_000_000_000, Ordering::SeqCst);
    // The sync's end may be the background's own, so the timer is not waited for.
    site.cell().attention.store(true, Ordering::SeqCst);
    site.host.shared.run(ONE);
    assert_eq!((is_answered(&mut write), site.counter("waited_for_sync")), (None, 1));
    drop(go_on);
    assert_eq!(answer(write), Some(Ok(Body::Done)));
}
