//! Shards on a full disk.

use std::sync::Arc;

use super::*;
use pando_core::takes_space;

/// Notes what it is asked, and whether there was room. What takes space it refuses if there is none, and does else.
struct Noting(&'static Mutex<Vec<(u64, bool)>>);

impl Machine for Noting {
    fn handle(&mut self, now: Now, input: Input, _: &dyn Rows) -> Result<Effects, Halt> {
        let mut effects = Effects { meta: GroupMeta::default(), ..Effects::default() };
        let Input::Client(tag, request) = input else { return Ok(effects) };
        let id = request.head.id;
        self.0.lock().unwrap().push((id.sequence, now.is_full));
        let toy = Toy { shard: ONE, asking: HashMap::new(), threads: Box::leak(Box::default()) };
        let mut reply = toy.reply(id, now);
        if now.is_full && takes_space(&request.op) {
            reply.result = Err(Refusal::Errno(Errno::ENOSPC));
        } else {
            effects.writes.push(Write::Put(id.sequence.to_be_bytes().to_vec(), vec![7; 100]));
        }
        effects.out.push((Need::Committed, Out::Reply(tag, reply)));
        Ok(effects)
    }

    fn has_ready(&self) -> bool {
        false
    }

    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// A host of one shard, its disk, and what its machine is asked.
pub(super) fn start_over<M: Machine + 'static>(machine: impl Fn() -> M) -> (Host, babu::MemDisk) {
    let disk = babu::MemDisk::new();
    let open = |_| {
        let options = babu::Options {
            log_chunk_bytes: 4 << 10,
            reserve_bytes: 64 << 10,
            database_id: 1,
            ..babu::Options::default()
        };
        Store::over(Arc::new(disk.clone()), options)
    };
    let recover = |_, _: Now, _: &Store| {
        let machine: Box<dyn Machine> = Box::new(machine());
        Ok((machine, Effects::default()))
    };
    let clock: Clock = Arc::new(RealTime::default());
    let (host, _) =
        Host::start_machines((2, &[ONE]), &HostOptions::default(), clock, open, recover).unwrap();
    (host, disk)
}

fn create(name: &str) -> Op {
    let node = pando_types::op::NewNode {
        kind: pando_types::FileKind::Regular,
        mode: 0o644,
        rdev: 0,
        symlink: Vec::new(),
    };
    let name = pando_types::Name::new(name.as_bytes()).unwrap();
    Op::Create { dir: DirRef::ROOT, name, node, exclusive: true, open: false }
}

pub(super) fn ask(host: &Host, sequence: u64, op: Op) -> Result<Body, Refusal> {
    block_on(host.call(ONE, request(sequence, op))).unwrap().result
}

/// Only the machine knows whether a request has run, and is to be answered as it was.
#[test]
fn on_a_full_disk_the_machine_is_asked_and_told_so() {
    let asked: &'static Mutex<Vec<_>> = Box::leak(Box::default());
    let (host, disk) = start_over(|| Noting(asked));
    assert_eq!(ask(&host, 1, create("a")), Ok(Body::Done));
    disk.full_after(0);
    let mut sequence = 1;
    // What is left of the last piece of log.
    let full = loop {
        sequence += 1;
        let answer = ask(&host, sequence, create("b"));
        if answer.is_err() {
            break answer;
        }
        assert!(sequence < 100);
    };
    assert_eq!(full, Err(Refusal::Errno(Errno::ENOSPC)));
    let name = pando_types::Name::new(b"a").unwrap();
    assert_eq!(ask(&host, 1_000, Op::Unlink(DirRef::ROOT, name)), Ok(Body::Done));
    assert_eq!(asked.lock().unwrap().last_chunk(), Some(&[(sequence, true), (1_000, true)]));
    disk.unlimited();
    assert_eq!(ask(&host, 1_001, create("c")), Ok(Body::Done));
    assert_eq!(asked.lock().unwrap().last(), Some(&(1_001, false)));
    assert_eq!(host.status().swap_remove(0).failed, None);
}
