//! Shards whose disk takes index files more slowly than clients write.

mod ends;
mod gated;
mod load;

use std::pin::Pin;

use babu::Pressure;
use pando_core::takes_space;

use self::gated::{Gate, Gated, Opened};
use super::full::create;
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

fn counter(cell: &Cell, name: &str) -> u64 {
    cell.counters.list().iter().find(|(of, ..)| *of == name).unwrap().2
}

impl Site {
    fn cell(&self) -> Arc<Cell> {
        self.host.shared.cell(ONE).unwrap()
    }

    fn counter(&self, name: &str) -> u64 {
        counter(&self.cell(), name)
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
