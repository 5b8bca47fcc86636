//! Shards on a full disk.

use std::sync::Arc;

use pando_core::takes_space;

use super::*;

/// A machine that notes each request that it handles, or begins anew for, and whether the disk was
/// full. On a full disk it refuses what takes space. A removal writes as many bytes as the
/// request's sequence says, any other request 100.
struct Noting(&'static Mutex<Vec<(u64, bool)>>, Option<(ClientTag, RequestId)>);

impl Machine for Noting {
    fn handle(&mut self, now: Now, input: Input, _: &dyn Rows) -> Result<Effects, Halt> {
        let mut effects = Effects { meta: GroupMeta::default(), ..Effects::default() };
        let Input::Client(tag, request) = input else { return Ok(effects) };
        let id = request.head.id;
        self.0.lock().unwrap().push((id.sequence, now.is_full));
        self.1 = Some((tag, id));
        let toy = Toy { shard: ONE, asking: HashMap::new(), threads: Box::leak(Box::default()) };
        let mut reply = toy.reply(id, now);
        if now.is_spent || now.is_full && takes_space(&request.op) {
            reply.result = Err(Refusal::Errno(Errno::ENOSPC));
        } else {
            let is_removal = matches!(request.op, Op::Unlink(..));
            let bytes = if is_removal { id.sequence as usize } else { 100 };
            effects.writes.push(Write::Put(id.sequence.to_be_bytes().to_vec(), vec![7; bytes]));
        }
        effects.out.push((Need::Committed, Out::Reply(tag, reply)));
        Ok(effects)
    }

    fn begin_anew(&mut self, now: Now, refuse: Errno, _: &dyn Rows) -> Result<Effects, Halt> {
        let (tag, id) = self.1.take().expect("something was asked");
        self.0.lock().unwrap().push((id.sequence, now.is_full));
        let toy = Toy { shard: ONE, asking: HashMap::new(), threads: Box::leak(Box::default()) };
        let mut reply = toy.reply(id, now);
        reply.result = Err(Refusal::Errno(refuse));
        let out = vec![(Need::Committed, Out::Reply(tag, reply))];
        Ok(Effects { out, ..Effects::default() })
    }

    fn has_ready(&self) -> bool {
        false
    }

    fn counters(&self) -> Vec<pando_core::Count> {
        Vec::new()
    }
}

/// A host of one shard, with its disk.
pub(crate) fn start_over<M: Machine + 'static>(machine: impl Fn() -> M) -> (Host, babu::MemDisk) {
    start_timed(machine, Arc::new(RealTime::default()), Duration::ZERO)
}

/// A host of one shard that scrubs its store once in a time by this clock.
pub(crate) fn start_timed<M: Machine + 'static>(
    machine: impl Fn() -> M,
    clock: Clock,
    scrub: Duration,
) -> (Host, babu::MemDisk) {
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
    let options = HostOptions { scrub, ..HostOptions::default() };
    let (host, _) = Host::start_machines((2, &[ONE]), &options, clock, open, recover).unwrap();
    (host, disk)
}

pub(crate) fn create(name: &str) -> Op {
    let node = pando_types::op::NewNode {
        kind: pando_types::FileKind::Regular,
        mode: 0o644,
        rdev: 0,
        symlink: Vec::new(),
    };
    let name = pando_types::Name::new(name.as_bytes()).unwrap();
    Op::Create { dir: DirRef::ROOT, name, node, exclusive: true, open: false }
}

pub(crate) fn ask(host: &Host, sequence: u64, op: Op) -> Result<Body, Refusal> {
    block_on(host.call(ONE, request(sequence, op))).unwrap().result
}

/// Only the machine knows whether a request has run before. If it has, the machine answers it as it
/// did then.
#[test]
fn on_a_full_disk_the_machine_is_asked_and_told_so() {
    let asked: &'static Mutex<Vec<_>> = Box::leak(Box::default());
    let (host, disk) = start_over(|| Noting(asked, None));
    assert_eq!(ask(&host, 1, create("a")), Ok(Body::Done));
    disk.full_after(0);
    let mut sequence = 1;
    // Fills what is left of the last chunk of the log.
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

/// How much a removal writes is known only when it is done. A removal that does not fit is refused,
/// and the shard goes on.
#[test]
fn what_does_not_fit_comes_to_nothing_and_the_shard_goes_on() {
    let asked: &'static Mutex<Vec<_>> = Box::leak(Box::default());
    let (host, disk) = start_over(|| Noting(asked, None));
    disk.full_after(0);
    let name = || pando_types::Name::new(b"a").unwrap();
    let large = ask(&host, 1 << 20, Op::Unlink(DirRef::ROOT, name()));
    assert_eq!(large, Err(Refusal::Errno(Errno::ENOSPC)));
    assert_eq!(ask(&host, 20_000, Op::Unlink(DirRef::ROOT, name())), Ok(Body::Done));
    let cell = host.shared.cell(ONE).unwrap();
    assert_eq!(cell.lock().store.get(&(1_u64 << 20).to_be_bytes()).unwrap(), None);
    assert!(cell.lock().store.get(&20_000_u64.to_be_bytes()).unwrap().is_some());
    // Fills the reserve.
    let full = (0..100).map(|n| ask(&host, 10_000 + n, Op::Unlink(DirRef::ROOT, name())));
    let full: Vec<_> = full.filter(Result::is_err).collect();
    assert!(full.len() > 10 && full.iter().all(|answer| *answer == large));
    // Now not even the smallest removal fits, and the machine is no longer asked to begin anew.
    let small = 5_000..5_100;
    let mut small = small.map(|n| (n, ask(&host, n, Op::Unlink(DirRef::ROOT, name()))));
    let (sequence, refused) = small.find(|(_, answer)| answer.is_err()).expect("the disk is full");
    assert_eq!(refused, large);
    let times = |sequence| asked.lock().unwrap().iter().filter(|(of, _)| *of == sequence).count();
    assert_eq!((times(1 << 20), times(sequence)), (2, 1));
    assert_eq!(host.status().swap_remove(0).failed, None);
    // The shard plans its own work again, without any request.
    cell.wake_at.store(u64::MAX, Ordering::SeqCst);
    cell.set_tick();
    host.shared.run(ONE);
    assert_ne!(cell.wake_at.load(Ordering::SeqCst), u64::MAX);
    disk.unlimited();
    assert_eq!(ask(&host, 20_001, Op::Unlink(DirRef::ROOT, name())), Ok(Body::Done));
}
