//! Shards whose disk takes index files more slowly than clients write.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;

use babu::Pressure;
use pando_core::takes_space;
use pando_wire::MoveToken;

use super::full::create;
use super::gated::{Gate, Gated, Opened};
use super::*;

/// Most bytes of trees.
const LIMIT: usize = 256 << 10;
/// One group may find the trees just below the limit.
const GROUP: usize = 8 << 10;
const VALUE: usize = 1_000;

/// A machine that notes each request that it handles, and whether the disk was full. What takes
/// space is a record of its sequence, and is refused on a full disk. Other requests write nothing.
struct Keeping(Noted);

type Noted = Arc<Mutex<Vec<Handled>>>;

/// A request that the machine has handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Handled {
    sequence: u64,
    takes_space: bool,
    is_full: bool,
}

impl Machine for Keeping {
    fn handle(&mut self, now: Now, input: Input, _: &dyn Rows) -> Result<Effects, Halt> {
        let mut effects = Effects { meta: GroupMeta::default(), ..Effects::default() };
        let Input::Client(tag, request) = input else { return Ok(effects) };
        let id = request.head.id;
        let takes_space = takes_space(&request.op);
        let (sequence, is_full) = (id.sequence, now.is_full);
        self.0.lock().unwrap().push(Handled { sequence, takes_space, is_full });
        let toy = Toy { shard: ONE, asking: HashMap::new(), threads: Box::leak(Box::default()) };
        let mut reply = toy.reply(id, now);
        if takes_space && is_full {
            reply.result = Err(Refusal::Errno(Errno::ENOSPC));
        } else if takes_space {
            effects.writes.push(Write::Put(sequence.to_be_bytes().to_vec(), vec![7; VALUE]));
        }
        effects.out.push((Need::Committed, Out::Reply(tag, reply)));
        Ok(effects)
    }

    fn has_ready(&self) -> bool {
        false
    }

    fn counters(&self) -> Vec<pando_core::Count> {
        Vec::new()
    }
}

/// A host of one shard, its disk, and what its machine has handled.
struct Site {
    host: Host,
    disk: Gated,
    handled: Noted,
    sequence: u64,
}

fn site() -> Site {
    site_at(Arc::new(RealTime::default()))
}

fn site_at(clock: Clock) -> Site {
    let (disk, handled) = (Gated::new(), Noted::default());
    let host = host_at(clock, Arc::new(disk.clone()), &handled);
    Site { host, disk, handled, sequence: 0 }
}

fn host_over(disk: Arc<dyn babu::Disk>, handled: &Noted) -> Host {
    host_at(Arc::new(RealTime::default()), disk, handled)
}

fn host_at(clock: Clock, disk: Arc<dyn babu::Disk>, handled: &Noted) -> Host {
    let open = |_| {
        let (log_chunk_bytes, reserve_bytes, database_id) = (64 << 10, 64 << 10, 1);
        let options = babu::Options::default();
        let options = babu::Options { log_chunk_bytes, reserve_bytes, database_id, ..options };
        Store::over(disk.clone(), options)
    };
    let recover = |_, _: Now, _: &Store| {
        let machine: Box<dyn Machine> = Box::new(Keeping(handled.clone()));
        Ok((machine, Effects::default()))
    };
    let (checkpoint_bytes, trees_max) = (LIMIT / 4, Some(LIMIT));
    let options = HostOptions { checkpoint_bytes, trees_max, ..HostOptions::default() };
    Host::start_machines((2, &[ONE]), &options, clock, open, recover).unwrap().0
}

/// Waits for a condition.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        std::thread::yield_now();
    }
}

fn is_answered(call: &mut Call) -> Option<Option<Result<Body, Refusal>>> {
    match Pin::new(call).poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(reply) => Some(reply.map(|reply| reply.result)),
        std::task::Poll::Pending => None,
    }
}

/// The answer to a call, which must come though the gate stays as it is.
fn answer(mut call: Call) -> Option<Result<Body, Refusal>> {
    let mut answer = None;
    until("an answer", || {
        answer = is_answered(&mut call);
        answer.is_some()
    });
    answer.flatten()
}

impl Site {
    fn cell(&self) -> Arc<Cell> {
        self.host.shared.cell(ONE).unwrap()
    }

    fn counter(&self, name: &str) -> u64 {
        self.cell().counters.list().iter().find(|(of, ..)| *of == name).unwrap().2
    }

    fn call(&mut self, op: Op) -> Call {
        self.sequence += 1;
        self.host.call(ONE, request(self.sequence, op))
    }

    fn ask(&mut self, op: Op) -> Option<Result<Body, Refusal>> {
        let call = self.call(op);
        answer(call)
    }

    /// Creates until a request is stopped, and returns that.
    fn fill(&mut self) -> Call {
        loop {
            let before = self.counter("stopped");
            let mut call = self.call(create("a"));
            let mut answer = None;
            until("an answer or a stop", || {
                answer = is_answered(&mut call);
                answer.is_some() || self.counter("stopped") > before
            });
            match answer {
                Some(answer) => assert_eq!(answer, Some(Ok(Body::Done))),
                None => return call,
            }
            self.judge();
        }
    }

    /// Sends a further request that takes space, which is stopped.
    fn stopped(&mut self) -> Call {
        let before = self.counter("stopped");
        let mut call = self.call(create("a"));
        until("a stop", || {
            assert_eq!(is_answered(&mut call), None);
            self.counter("stopped") > before
        });
        call
    }

    /// Memory is within its limit.
    fn judge(&self) {
        let pressure = self.cell().lock().store.pressure(LIMIT + GROUP);
        assert!(!matches!(pressure, Pressure::Hard(_)), "{:?}", self.cell().lock().store.stats());
    }

    /// All that passes while writers are stopped.
    fn what_frees_passes(&mut self) {
        let name = pando_types::Name::new(b"a").unwrap();
        for op in [Op::Unlink(DirRef::ROOT, name), Op::Renew(SessionId(1)), Op::Sync(ONE)] {
            assert_eq!(self.ask(op), Some(Ok(Body::Done)));
        }
    }

    fn has(&self, sequence: u64) -> bool {
        self.cell().lock().store.get(&sequence.to_be_bytes()).unwrap().is_some()
    }
}

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
