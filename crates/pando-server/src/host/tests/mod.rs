//! Hosts with machines of a few lines.

mod brake;
mod full;
mod scrub;
mod unreadable;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use pando_core::contract::{
    ClientTag, Effects, GroupMeta, Halt, Input, Need, Now, Out, Rows, Write,
};
use pando_types::op::{
    FileAt, FileRef, Head, ObjectId, ObjectRange, Op, Payload, Piece, Request, RequestId,
};
use pando_types::peer::{Behalf, Floor, Peer, PeerMessage};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{
    Credentials, DirId, DirRef, Errno, Ino, KeyId, Lsn, SessionId, ShardIndex, TxnId,
};

use super::*;
use crate::calls::connection::{Asked, ReplySink};
use crate::calls::outbox::Outbox;
use crate::calls::reply_to::ReplyTo;
use crate::common::clock::tests::Set;
use crate::common::clock::{Clock, RealTime};
use crate::common::wait::block_on;
use crate::shard::cell::Cell;
use crate::shard::machine::Machine;
use crate::store::records::Store;

/// A machine that writes one record for each request. The operation decides what the reply needs.
/// `InspectDir` of a shard asks that shard first. `EndSession` breaks the machine.
struct Toy {
    shard: ShardIndex,
    asking: HashMap<u64, (ClientTag, RequestId)>,
    threads: &'static Mutex<Vec<std::thread::ThreadId>>,
}

impl Toy {
    fn reply(&self, id: RequestId, now: Now) -> Box<Reply> {
        Box::new(Reply {
            id,
            trace: 0,
            shard: self.shard,
            epoch: now.epoch,
            durable: Lsn(0),
            seen: Lsn(now.seen.0 + 1),
            version: 0,
            clock: now.wall,
            result: Ok(Body::Done),
            news: None,
            amendment: None,
        })
    }

    fn peer(&self, number: u64, message: PeerMessage) -> Box<Peer> {
        let txn = TxnId { shard: self.shard, number };
        Box::new(Peer {
            from: self.shard,
            trace: 0,
            clock: 0,
            behalf: Behalf::default(),
            txn,
            step: 0,
            floor: Floor::default(),
            message,
        })
    }
}

impl Machine for Toy {
    fn handle(&mut self, now: Now, input: Input, _: &dyn Rows) -> Result<Effects, Halt> {
        self.threads.lock().unwrap().push(std::thread::current().id());
        let meta = GroupMeta { now: now.wall, ..GroupMeta::default() };
        let mut effects = Effects { meta, ..Effects::default() };
        let record = |n: u64| Write::Put(n.to_be_bytes().to_vec(), vec![7; 100]);
        match input {
            Input::Client(tag, request) => {
                effects.writes.push(record(request.head.id.sequence));
                let reply = self.reply(request.head.id, now);
                match request.op {
                    Op::StatFs(_) | Op::WriteData { .. } | Op::Parent(_) => {
                        effects.out.push((Need::Committed, Out::Reply(tag, reply)))
                    }
                    Op::Sync(_) => effects.out.push((Need::Synced, Out::Reply(tag, reply))),
                    Op::Garbage(..) => effects.out.push((Need::Durable, Out::Reply(tag, reply))),
                    Op::InspectDir(other, _) => {
                        let number = request.head.id.sequence;
                        self.asking.insert(number, (tag, request.head.id));
                        let ask = self.peer(number, PeerMessage::Ask);
                        effects.out.push((Need::Committed, Out::Peer(other, ask)));
                    }
                    _ => return Err(Halt::Broken("file x is damaged at offset 9".to_owned())),
                }
            }
            Input::Peer(peer) => match peer.message {
                PeerMessage::Ask => {
                    let answer = self.peer(peer.txn.number, PeerMessage::Finished);
                    effects.out.push((Need::Committed, Out::Peer(peer.from, answer)));
                }
                _ => {
                    let (tag, id) = self.asking.remove(&peer.txn.number).unwrap();
                    let reply = self.reply(id, now);
                    effects.out.push((Need::Committed, Out::Reply(tag, reply)));
                }
            },
            Input::Tick | Input::Ready => {}
        }
        Ok(effects)
    }

    fn answer_at_once(
        &mut self,
        now: Now,
        _: KeyId,
        request: &Request,
        _: &dyn Rows,
    ) -> Result<Option<Box<Reply>>, Halt> {
        let reads = matches!(request.op, Op::Parent(_));
        Ok(reads.then(|| self.reply(request.head.id, now)))
    }

    fn has_ready(&self) -> bool {
        false
    }

    fn counters(&self) -> Vec<pando_core::Count> {
        Vec::new()
    }
}

fn start(
    folder: &Path,
    options: &HostOptions,
) -> (Host, &'static Mutex<Vec<std::thread::ThreadId>>) {
    start_at(Arc::new(RealTime::default()), folder, options)
}

fn start_at(
    clock: Clock,
    folder: &Path,
    options: &HostOptions,
) -> (Host, &'static Mutex<Vec<std::thread::ThreadId>>) {
    let threads: &'static Mutex<Vec<_>> = Box::leak(Box::default());
    let open =
        |shard: u16| Store::open(&folder.join(shard.to_string()), shard.into(), &options.store);
    let recover = |shard, _: Now, _: &Store| {
        let toy: Box<dyn Machine> = Box::new(Toy { shard, asking: HashMap::new(), threads });
        Ok((toy, Effects::default()))
    };
    let shards = (3, &[0, 1, 2].map(ShardIndex)[..]);
    let (host, starts) = Host::start_machines(shards, options, clock, open, recover).unwrap();
    assert_eq!(starts.len(), 3);
    (host, threads)
}

fn request(sequence: u64, op: Op) -> Request {
    let id = RequestId { session: SessionId(1), slot: 0, sequence };
    Request {
        head: Head { id, ..Head::default() },
        credentials: Credentials::ROOT,
        op,
        trail: None,
    }
}

const ONE: ShardIndex = ShardIndex(1);
const TWO: ShardIndex = ShardIndex(2);

#[test]
fn every_caller_gets_its_own_reply() {
    let temp = tempfile::tempdir().unwrap();
    let options = HostOptions { checkpoint_bytes: 64 << 10, ..HostOptions::default() };
    let (host, _) = start(temp.path(), &options);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let host = &host;
            scope.spawn(move || {
                for n in 0..2_000 {
                    let sequence = thread * 10_000 + n;
                    let op =
                        if n % 5 == 0 { Op::InspectDir(TWO, DirId::ROOT) } else { Op::StatFs(ONE) };
                    let reply = block_on(host.call(ONE, request(sequence, op))).unwrap();
                    assert_eq!((reply.id.sequence, reply.shard), (sequence, ONE));
                }
            });
        }
    });
    // A thread of its own makes the checkpoint, which counts when the shard runs next.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut asked = 0;
    let status = loop {
        asked += 1;
        let status = host.status().swap_remove(1);
        if status.counters["checkpoints"] > 0 || Instant::now() > deadline {
            break status;
        }
        std::thread::yield_now();
    };
    assert_eq!(status.counters["requests"], 16_000 + asked);
    assert!(status.counters["checkpoints"] > 0);
    assert!(status.counters["log_writes"] <= status.counters["groups"]);
}

#[test]
fn an_operation_over_two_shards_runs_on_the_callers_thread_alone() {
    let temp = tempfile::tempdir().unwrap();
    let (host, threads) = start(temp.path(), &HostOptions::default());
    threads.lock().unwrap().clear();
    block_on(host.call(ONE, request(1, Op::InspectDir(TWO, DirId::ROOT)))).unwrap();
    let threads = threads.lock().unwrap();
    assert_eq!(threads.len(), 3);
    assert!(threads.iter().all(|thread| *thread == std::thread::current().id()));
}

#[test]
fn a_reply_that_needs_a_sync_leaves_after_it_and_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    for n in 1..20 {
        let begun = Instant::now();
        let reply = block_on(host.call(ONE, request(n, Op::Sync(ONE)))).unwrap();
        assert!(reply.durable >= reply.seen, "{reply:?}");
        assert!(begun.elapsed() < Duration::from_millis(900), "waited for the background sync");
    }
}

#[test]
fn a_reply_that_needs_durability_waits_for_the_next_sync_whenever_that_comes() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    let reply = block_on(host.call(ONE, request(1, Op::Garbage(ONE, 1)))).unwrap();
    assert!(reply.durable >= reply.seen, "{reply:?}");
    assert!(host.status()[1].counters["syncs"] >= 1);
}

#[test]
fn in_mode_disk_every_reply_is_durable_and_in_mode_os_it_need_not_be() {
    for durability in [Durability::Os, Durability::Disk] {
        let temp = tempfile::tempdir().unwrap();
        let (host, _) = start(temp.path(), &HostOptions { durability, ..HostOptions::default() });
        let replies: Vec<_> = (1..50)
            .map(|n| block_on(host.call(ONE, request(n, Op::StatFs(ONE)))).unwrap())
            .collect();
        let all_durable = replies.iter().all(|reply| reply.durable >= reply.seen);
        assert_eq!(all_durable, durability == Durability::Disk);
    }
}

#[test]
fn objects_are_synced_before_the_log_and_their_failure_stops_the_shard() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    host.set_before_sync(Box::new(|| Err(io::Error::other("object 5 is unreadable"))));
    let reply = block_on(host.call(ONE, request(1, Op::Sync(ONE)))).unwrap();
    assert_eq!(reply.result, Err(Refusal::Errno(Errno::EIO)));
    assert!(host.status()[1].failed.as_ref().unwrap().contains("object 5"));
}

#[test]
fn what_names_an_object_waits_while_the_objects_and_the_log_are_synced() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    let (began, begun) = mpsc::channel();
    let (go_on, wait) = mpsc::channel();
    let channel = Mutex::new((began, wait));
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    host.set_before_sync(Box::new(move || {
        if !over.load(Ordering::SeqCst) {
            let channel = channel.lock().unwrap();
            channel.0.send(()).unwrap();
            channel.1.recv().unwrap();
            over.store(true, Ordering::SeqCst);
        }
        Ok(())
    }));
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(host.call(ONE, request(1, Op::Sync(ONE)))).unwrap());
        begun.recv().unwrap();
        // A request that names no object does not wait.
        block_on(host.call(ONE, request(2, Op::StatFs(ONE)))).unwrap();
        let write = scope.spawn(|| {
            block_on(host.call(ONE, request(3, write_of_an_object()))).unwrap();
            assert!(is_over.load(Ordering::SeqCst));
        });
        let waits = || host.status()[1].counters["waited_for_sync"] == 1;
        while !waits() && !write.is_finished() {
            std::thread::yield_now();
        }
        assert!(!write.is_finished());
        go_on.send(()).unwrap();
    });
    assert_eq!(host.status()[1].counters["waited_for_sync"], 1);
}

/// A checkpoint syncs the log, too.
#[test]
fn no_group_is_durable_before_the_objects_whichever_thread_syncs_the_log() {
    let temp = tempfile::tempdir().unwrap();
    let options = HostOptions { checkpoint_bytes: 16 << 10, ..HostOptions::default() };
    let (host, _) = start(temp.path(), &options);
    let (go_on, may_sync) = mpsc::channel::<()>();
    let may_sync = Mutex::new(may_sync);
    host.set_before_sync(Box::new(move || {
        // An error means that the test is over.
        let _ = may_sync.lock().unwrap().recv();
        Ok(())
    }));
    let cell = host.shared.cell(ONE).unwrap();
    let before = cell.durable();
    let mut lists: Vec<_> = Vec::new();
    let mut n = 0;
    while cell.counters.checkpoints_begun.get() == 0 {
        n += 1;
        let AtOnce::Later(list) = host.call_at_once(ONE, Box::new(request(n, Op::Garbage(ONE, 1))))
        else {
            panic!("it was told what may still be needed");
        };
        lists.push(list);
    }
    // The checkpoint waits for the sync of objects.
    let mut context = Context::from_waker(Waker::noop());
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        assert_eq!(cell.durable(), before);
        std::thread::sleep(Duration::from_millis(5));
    }
    for list in &mut lists {
        assert!(std::pin::Pin::new(list).poll(&mut context).is_pending());
    }
    drop(go_on);
    for list in lists {
        assert!(block_on(list).is_some());
    }
    assert!(cell.durable() > before);
}

fn write_of_an_object() -> Op {
    let object = ObjectId(1);
    let range =
        ObjectRange { object, offset: 0, len: 1, object_len: 1, store: 0, key: 0, codec: 0 };
    let pieces = vec![Piece { offset: 0, payload: Payload::Object(range) }];
    let file = FileRef { ino: Ino(5), at: FileAt::Link };
    Op::WriteData { file, base: None, pieces, mtime: None, kill: None }
}

#[test]
fn a_broken_shard_answers_eio_and_the_others_go_on() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    for sequence in 1..3 {
        let op = Op::EndSession(SessionId(1));
        let reply = block_on(host.call(ONE, request(sequence, op))).unwrap();
        assert_eq!(reply.result, Err(Refusal::Errno(Errno::EIO)));
    }
    let reply = block_on(host.call(TWO, request(9, Op::StatFs(TWO)))).unwrap();
    assert_eq!(reply.result, Ok(Body::Done));
    let status = host.status();
    assert!(status[1].failed.as_ref().unwrap().contains("offset 9"));
    assert_eq!(status[2].failed, None);
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart_and_after_a_stop_no_caller_waits() {
    let temp = tempfile::tempdir().unwrap();
    let options = HostOptions { checkpoint_bytes: 16 << 10, ..HostOptions::default() };
    let (host, _) = start(temp.path(), &options);
    for n in 0..1_000 {
        block_on(host.call(ONE, request(n, Op::StatFs(ONE)))).unwrap();
    }
    host.stop();
    assert!(block_on(host.call(ONE, request(1, Op::StatFs(ONE)))).is_none());
    block_on(host.sleep(u64::MAX));
    drop(host);
    let (host, _) = start(temp.path(), &options);
    let cell = host.shared.cell(ONE).unwrap();
    let state = cell.lock();
    for n in 0..1_000u64 {
        assert!(state.store.get(&n.to_be_bytes()).unwrap().is_some(), "{n}");
    }
}

#[test]
fn a_read_is_answered_at_once_unless_it_would_see_what_is_not_acknowledged() {
    let temp = tempfile::tempdir().unwrap();
    let options = HostOptions { durability: Durability::Disk, ..HostOptions::default() };
    let (host, _) = start(temp.path(), &options);
    let (go_on, may_sync) = std::sync::mpsc::channel::<()>();
    let may_sync = Mutex::new(may_sync);
    host.set_before_sync(Box::new(move || {
        // An error means that the test is over.
        let _ = may_sync.lock().unwrap().recv();
        Ok(())
    }));
    let read = || host.call_at_once(ONE, Box::new(request(0, Op::Parent(DirRef::ROOT))));
    let at_once = || host.shared.cell(ONE).unwrap().counters.at_once.get();
    assert!(matches!(read(), AtOnce::Answered(Some(_))));
    assert_eq!(at_once(), 1);
    let AtOnce::Later(write) = host.call_at_once(ONE, Box::new(request(1, Op::StatFs(ONE)))) else {
        panic!("it waits for its sync");
    };
    let AtOnce::Later(later) = read() else { panic!("it saw what may be lost") };
    assert_eq!(at_once(), 1);
    drop(go_on);
    assert!(block_on(write).is_some() && block_on(later).is_some());
    assert!(matches!(read(), AtOnce::Answered(Some(_))));
    assert_eq!(at_once(), 2);
}

/// A move that is refused, or a look at the store, takes the shard for a moment. A call that comes
/// meanwhile is run after that.
#[test]
fn a_request_to_a_held_shard_is_run_when_the_shard_is_released() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    let cell = host.shared.cell(ONE).unwrap();
    let mut call = std::pin::pin!(host.call(ONE, request(1, Op::StatFs(ONE))));
    let mut context = Context::from_waker(Waker::noop());
    host.shared.with(&cell, |_| assert!(call.as_mut().poll(&mut context).is_pending()));
    assert!(call.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_sleep_takes_its_time() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    let begun = Instant::now();
    block_on(host.sleep(30_000_000));
    assert!(begun.elapsed() >= Duration::from_millis(29));
}

#[test]
fn a_sleep_that_is_polled_often_is_registered_once_and_the_end_wakes_it() {
    #[derive(Default)]
    struct Woken(AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    let woken = Arc::new(Woken::default());
    let waker = woken.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut sleep = std::pin::pin!(host.sleep(u64::MAX));
    for _ in 0..100 {
        assert!(sleep.as_mut().poll(&mut context).is_pending());
    }
    // One reference is here, one in the context's waker, and one each in the sleep and in the
    // timer.
    assert_eq!(Arc::strong_count(&woken), 4);
    host.stop();
    assert!(woken.0.load(Ordering::SeqCst));
    assert!(sleep.as_mut().poll(&mut context).is_ready());
}

/// A connection that notes how many messages wait for another shard when it takes a reply.
struct Watching {
    other: Arc<Cell>,
    waiting: Mutex<Vec<usize>>,
}

impl ReplySink for Watching {
    fn key(&self) -> KeyId {
        KeyId::OWNER
    }

    fn reply(&self, _: Asked, _: Option<&Reply>) -> bool {
        self.waiting.lock().unwrap().push(self.other.inbox.lock().len());
        false
    }

    fn flush(&self) {}
}

/// A client that is redirected from a partition's old owner to its new one must arrive after the
/// message that makes it the owner.
#[test]
fn other_shards_hear_before_the_caller_is_answered() {
    let temp = tempfile::tempdir().unwrap();
    let (host, _) = start(temp.path(), &HostOptions::default());
    let [one, two] = [ONE, TWO].map(|shard| host.shared.cell(shard).unwrap());
    let sink = Arc::new(Watching { other: two, waiting: Mutex::default() });
    let toy = Toy { shard: ONE, asking: HashMap::new(), threads: Box::leak(Box::default()) };
    let now = Now::at(0, one.epoch, Lsn(0), Lsn(0));
    let reply = toy.reply(RequestId::default(), now);
    let mut outbox = Outbox {
        replies: vec![(
            ReplyTo::Stream(sink.clone(), Asked { stream: 1, bytes: 1, reply: 1 }),
            reply,
        )],
        peers: vec![(TWO, toy.peer(1, PeerMessage::Ask))],
        ..Outbox::default()
    };
    let mut work = Vec::new();
    host.shared.deliver(&one, &mut outbox, &mut work);
    assert_eq!((&*sink.waiting.lock().unwrap(), &work[..]), (&vec![1], &[TWO][..]));
}

const HOUR: u64 = 3_600_000_000_000;
const NOON: u64 = 500_000 * HOUR;

#[test]
fn a_clock_that_is_set_back_keeps_no_caller_waiting() {
    let temp = tempfile::tempdir().unwrap();
    let clock = Arc::new(Set::default());
    clock.wall.store(NOON, Ordering::SeqCst);
    let (host, _) = start_at(clock.clone(), temp.path(), &HostOptions::default());
    let stamp = |n| block_on(host.call(ONE, request(n, Op::StatFs(ONE)))).unwrap().clock;
    assert_eq!(stamp(1), NOON);
    let sleep = host.sleep(1_000_000);
    clock.wall.store(NOON - HOUR, Ordering::SeqCst);
    block_on(sleep);
    block_on(host.sleep(1_000_000));
    // One look at the clock stamps several requests.
    assert!((2..40).any(|n| stamp(n) == NOON - HOUR));
}

#[test]
fn a_shard_goes_on_from_its_own_time_of_day_and_waits_for_no_other_clock() {
    let temp = tempfile::tempdir().unwrap();
    let stamps_at = |wall: u64, sequence: u64| {
        let clock = Arc::new(Set::default());
        clock.wall.store(wall, Ordering::SeqCst);
        let (host, _) = start_at(clock, temp.path(), &HostOptions::default());
        let stamp =
            |shard| block_on(host.call(shard, request(sequence, Op::StatFs(shard)))).unwrap().clock;
        // The first run stamps shard one only.
        [Some(ONE), Some(TWO).filter(|_| sequence != 1)].map(|shard| shard.map(stamp))
    };
    assert_eq!(stamps_at(NOON + HOUR, 1), [Some(NOON + HOUR), None]);
    // Shard one was stamped half a second ahead: its time of day stands still that long.
    let back = NOON + HOUR - 500_000_000;
    assert_eq!(stamps_at(back, 2), [Some(NOON + HOUR), Some(back)]);
    // An hour is more than the slack: the time of day follows the corrected clock.
    assert_eq!(stamps_at(NOON, 3), [Some(NOON), Some(NOON)]);
}
