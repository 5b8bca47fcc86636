//! The device core with the test in place of the kernel. Requests go over a socket that keeps them
//! apart.

mod gated;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use gated::Gated;
use pando_fuse::device::abi::{self, opcode};
use pando_fuse::device::{Config, Errno, Running, shake_hands, start};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Number of a process that does not exist.
const GONE: u32 = u32::MAX;

struct Kernel {
    socket: OwnedFd,
    running: Option<Running>,
    last: u64,
}

struct Answer {
    unique: u64,
    error: i32,
    body: Vec<u8>,
}

impl Kernel {
    fn new(fs: &Gated, config: Config) -> Self {
        Self::with(fs, config, |_| ())
    }

    /// Starts a session. What `first` sends can be read when the session begins.
    fn with(fs: &Gated, config: Config, first: impl FnOnce(&mut Self)) -> Self {
        let (socket, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        // A test that gets no answer fails after this time.
        let limit = Some(Duration::from_secs(60));
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, limit).unwrap();
        let mut kernel = Self { socket, running: None, last: 0 };
        let offer = abi::InitIn { major: 7, minor: 31, max_readahead: 1 << 17, flags: u32::MAX };
        let more = abi::InitMore::default();
        // Before INIT, no request is served.
        let hasty = kernel.send(opcode::GETATTR, 1, 0, abi::GetattrIn::default().as_bytes());
        let body = [offer.as_bytes(), more.as_bytes()].concat();
        let unique = kernel.send(opcode::INIT, 0, 0, &body);
        shake_hands(&theirs, &config).unwrap();
        let refused = kernel.receive();
        assert_eq!((refused.unique, refused.error), (hasty, Errno::IO.raw_os_error()));
        let answer = kernel.receive();
        assert_eq!((answer.unique, answer.error), (unique, 0));
        let out = abi::InitOut::read_from_bytes(&answer.body).unwrap();
        assert_eq!((out.major, out.minor, out.max_write), (7, 31, 1 << 20));
        first(&mut kernel);
        kernel.running =
            Some(start(vec![theirs], std::sync::Arc::new(fs.clone()), config).unwrap());
        kernel
    }

    fn send(&mut self, opcode: u32, nodeid: u64, pid: u32, body: &[u8]) -> u64 {
        self.last += 2;
        let len = (size_of::<abi::InHeader>() + body.len()) as u32;
        let unique = self.last;
        let header = abi::InHeader { len, opcode, unique, nodeid, pid, ..Default::default() };
        self.send_bytes(&[header.as_bytes(), body].concat());
        unique
    }

    fn send_bytes(&self, bytes: &[u8]) {
        rustix::io::write(&self.socket, bytes).unwrap();
    }

    fn getattr(&mut self, pid: u32) -> u64 {
        self.send(opcode::GETATTR, 2, pid, abi::GetattrIn::default().as_bytes())
    }

    /// Sends an INTERRUPT: a signal came to the caller.
    fn interrupt(&self, unique: u64) {
        let body = abi::InterruptIn { unique };
        let header = abi::InHeader {
            len: (size_of::<abi::InHeader>() + size_of::<abi::InterruptIn>()) as u32,
            opcode: opcode::INTERRUPT,
            unique: unique | abi::INTERRUPT_BIT,
            ..Default::default()
        };
        self.send_bytes(&[header.as_bytes(), body.as_bytes()].concat());
    }

    fn receive(&self) -> Answer {
        let mut buffer = vec![0; 1 << 17];
        let len = rustix::io::read(&self.socket, &mut buffer).expect("an answer");
        let (header, body) = abi::OutHeader::read_from_prefix(&buffer[..len]).unwrap();
        assert_eq!(header.len as usize, len);
        Answer { unique: header.unique, error: -header.error, body: body.to_vec() }
    }

    fn expect(&self, unique: u64, error: Errno) {
        let answer = self.receive();
        assert_eq!((answer.unique, answer.error), (unique, error.raw_os_error()));
    }

    fn expect_ok(&self, unique: u64) {
        let answer = self.receive();
        assert_eq!((answer.unique, answer.error), (unique, 0));
    }

    fn hang_up(mut self) {
        let running = self.running.take().unwrap();
        drop(self);
        running.join().unwrap();
    }
}

fn bytes(structure: &(impl IntoBytes + Immutable), more: &[u8]) -> Vec<u8> {
    [structure.as_bytes(), more].concat()
}

/// A well-formed body for each opcode.
fn good_bodies() -> HashMap<u32, Vec<u8>> {
    let set = abi::SetxattrIn { size: 2, flags: 0 };
    let write = abi::WriteIn { size: 3, ..Default::default() };
    let batch = abi::BatchForgetIn { count: 1, dummy: 0 };
    let read = abi::ReadIn { size: 4096, ..Default::default() };
    HashMap::from([
        (opcode::LOOKUP, b"file\0".to_vec()),
        (opcode::FORGET, bytes(&abi::ForgetIn { nlookup: 1 }, b"")),
        (opcode::GETATTR, bytes(&abi::GetattrIn::default(), b"")),
        (opcode::SETATTR, bytes(&abi::SetattrIn::default(), b"")),
        (opcode::READLINK, Vec::new()),
        (opcode::SYMLINK, b"name\0target\0".to_vec()),
        (opcode::MKNOD, bytes(&abi::MknodIn::default(), b"name\0")),
        (opcode::MKDIR, bytes(&abi::MkdirIn::default(), b"name\0")),
        (opcode::RENAME, bytes(&abi::RenameIn::default(), b"a\0b\0")),
        (opcode::RENAME2, bytes(&abi::Rename2In::default(), b"a\0b\0")),
        (opcode::LINK, bytes(&abi::LinkIn::default(), b"name\0")),
        (opcode::OPEN, bytes(&abi::OpenIn::default(), b"")),
        (opcode::READ, bytes(&read, b"")),
        (opcode::WRITE, bytes(&write, b"abc")),
        (opcode::RELEASE, bytes(&abi::ReleaseIn::default(), b"")),
        (opcode::FSYNC, bytes(&abi::FsyncIn::default(), b"")),
        (opcode::SETXATTR, bytes(&set, b"user.a\0ab")),
        (opcode::GETXATTR, bytes(&abi::GetxattrIn::default(), b"user.a\0")),
        (opcode::FLUSH, bytes(&abi::FlushIn::default(), b"")),
        (opcode::GETLK, bytes(&abi::LkIn::default(), b"")),
        (opcode::SETLK, bytes(&abi::LkIn::default(), b"")),
        (opcode::SETLKW, bytes(&abi::LkIn::default(), b"")),
        (opcode::INIT, bytes(&abi::InitIn::default(), b"")),
        (opcode::READDIR, bytes(&read, b"")),
        (opcode::READDIRPLUS, bytes(&read, b"")),
        (opcode::CREATE, bytes(&abi::CreateIn::default(), b"name\0")),
        (opcode::BATCH_FORGET, bytes(&batch, &[0; 16])),
        (opcode::LSEEK, bytes(&abi::LseekIn::default(), b"")),
        (opcode::COPY_FILE_RANGE, bytes(&abi::CopyFileRangeIn::default(), b"")),
        (opcode::COPY_FILE_RANGE_64, bytes(&abi::CopyFileRangeIn::default(), b"")),
        (opcode::DESTROY, Vec::new()),
    ])
}

#[test]
fn whatever_is_sent_is_answered_once_and_does_no_harm() {
    let fs = Gated::default();
    fs.open();
    let mut kernel = Kernel::new(&fs, Config::default());
    let mut good: Vec<_> = good_bodies().into_iter().collect();
    good.sort();
    let silent = [opcode::FORGET, opcode::BATCH_FORGET, opcode::INTERRUPT, opcode::NOTIFY_REPLY];
    let mut numbers = fastrand::Rng::with_seed(1);
    for round in 0..4000 {
        let (code, mut body) = good[round % good.len()].clone();
        for _ in 0..numbers.usize(..4) {
            match numbers.usize(..3) {
                0 => body.truncate(numbers.usize(..body.len() + 1)),
                1 => body.extend(0..numbers.u8(..40)),
                _ if body.is_empty() => {}
                _ => {
                    let at = numbers.usize(..body.len());
                    body[at] = [0, 255, 1, 47][numbers.usize(..4)];
                }
            }
        }
        let code = if numbers.usize(..8) == 0 { numbers.u32(..5000) } else { code };
        if code == opcode::INTERRUPT {
            continue;
        }
        let unique = kernel.last + 2;
        kernel.last = unique;
        let len = size_of::<abi::InHeader>() + body.len();
        let mut header =
            abi::InHeader { len: len as u32, opcode: code, unique, ..Default::default() };
        match numbers.usize(..20) {
            0 => header.len = numbers.u32(..1 << 20),
            1 => header.total_extlen = numbers.u16(..),
            _ => {}
        }
        let mut packet = bytes(&header, &body);
        if numbers.usize(..30) == 0 {
            packet.truncate(1 + numbers.usize(..39));
        }
        let is_whole = packet.len() >= size_of::<abi::InHeader>();
        kernel.send_bytes(&packet);
        let sentinel = kernel.getattr(0);
        if is_whole && !silent.contains(&code) {
            let answer = kernel.receive();
            assert_eq!(answer.unique, unique, "opcode {code}, {body:?}");
        }
        kernel.expect_ok(sentinel);
    }
    kernel.hang_up();
}

#[test]
fn a_thousand_requests_wait_and_are_answered_in_another_order() {
    let fs = Gated::default();
    fs.hold("getattr");
    let mut kernel = Kernel::new(&fs, Config::default());
    let sent: HashSet<u64> = (0..1000).map(|_| kernel.getattr(0)).collect();
    fs.until("all wait", |counts| counts.waiting == 1000);
    // Other requests are served meanwhile.
    let lookup = kernel.send(opcode::LOOKUP, 1, 0, b"file\0");
    kernel.expect_ok(lookup);
    let opener = {
        let fs = fs.clone();
        std::thread::spawn(move || fs.open())
    };
    let answers: Vec<u64> = (0..1000).map(|_| kernel.receive().unique).collect();
    opener.join().unwrap();
    assert!(!answers.is_sorted(), "the last was let through first");
    assert_eq!(answers.into_iter().collect::<HashSet<_>>(), sent);
    kernel.hang_up();
}

#[test]
fn a_caller_that_is_gone_gets_eintr_at_once_and_what_is_done_later_is_undone() {
    let fs = Gated::default();
    let patience = Duration::from_secs(3600);
    let config =
        Config { signal_patience: patience, content_patience: patience, ..Config::default() };
    let mut kernel = Kernel::new(&fs, config);
    let lookup = kernel.send(opcode::LOOKUP, 1, GONE, b"stuck\0");
    let create = bytes(&abi::CreateIn::default(), b"new\0");
    let create = kernel.send(opcode::CREATE, 1, GONE, &create);
    fs.until("both wait", |counts| counts.waiting == 2);
    for unique in [create, lookup] {
        kernel.interrupt(unique);
        kernel.expect(unique, Errno::INTR);
        // A second interrupt has no request, as the next request shows.
        kernel.interrupt(unique);
        let next = kernel.getattr(0);
        kernel.expect(unique | abi::INTERRUPT_BIT, Errno::AGAIN);
        kernel.expect_ok(next);
    }
    fs.open();
    fs.until("both find nobody", |counts| counts.undelivered == 2);
    let sentinel = kernel.getattr(0);
    kernel.expect_ok(sentinel);
    kernel.hang_up();
    fs.until("it ends", |counts| counts.is_ended && counts.lookups == 0 && counts.opens == 0);
}

#[test]
fn an_interrupt_may_come_before_its_request() {
    let fs = Gated::default();
    let mut kernel = Kernel::new(&fs, Config::default());
    kernel.interrupt(kernel.last + 2);
    let lookup = kernel.send(opcode::LOOKUP, 1, GONE, b"stuck\0");
    kernel.expect(lookup, Errno::INTR);
    let sentinel = kernel.getattr(0);
    kernel.expect_ok(sentinel);
    kernel.hang_up();
}

#[test]
fn a_signal_that_does_not_kill_is_heeded_after_a_while() {
    let fs = Gated::default();
    let signal_patience = Duration::from_millis(300);
    let content_patience = Duration::from_secs(3600);
    let config = Config { signal_patience, content_patience, ..Config::default() };
    let mut kernel = Kernel::new(&fs, config);
    fs.hold("flush");
    let alive = std::process::id();
    let flush = kernel.send(opcode::FLUSH, 2, alive, abi::FlushIn::default().as_bytes());
    let lookup = kernel.send(opcode::LOOKUP, 1, alive, b"stuck\0");
    fs.until("both wait", |counts| counts.waiting == 2);
    let begun = Instant::now();
    kernel.interrupt(flush);
    kernel.interrupt(lookup);
    kernel.expect(lookup, Errno::INTR);
    assert!(begun.elapsed() >= signal_patience);
    fs.open();
    kernel.expect_ok(flush);
    kernel.hang_up();
}

#[test]
fn threads_that_wait_hold_up_no_other() {
    for operation in ["fsync", "read"] {
        let fs = Gated::default();
        fs.hold(operation);
        let mut kernel = Kernel::new(&fs, Config::default());
        // More than the allowed number of threads, for the operation that steps aside.
        let (count, code, body) = match operation {
            "fsync" => (200, opcode::FSYNC, bytes(&abi::FsyncIn::default(), b"")),
            _ => (5, opcode::READ, bytes(&abi::ReadIn::default(), b"")),
        };
        let mut sent: HashSet<u64> = (0..count).map(|_| kernel.send(code, 2, 0, &body)).collect();
        let sentinel = kernel.getattr(0);
        kernel.expect_ok(sentinel);
        let opener = {
            let fs = fs.clone();
            std::thread::spawn(move || fs.open())
        };
        while !sent.is_empty() {
            assert!(sent.remove(&kernel.receive().unique));
        }
        opener.join().unwrap();
        kernel.hang_up();
    }
}

/// Closes `releases` files, then looks up `lookups` names that do not exist. Returns the order of
/// the answers.
fn closes_then_lookups(releases: u64, lookups: u64) -> Vec<u64> {
    let fs = Gated::default();
    fs.hold("release");
    let body = abi::ReleaseIn::default();
    let kernel = Kernel::with(&fs, Config::default(), |kernel| {
        (0..releases).for_each(|_| _ = kernel.send(opcode::RELEASE, 2, 0, body.as_bytes()));
        (0..lookups).for_each(|_| _ = kernel.send(opcode::LOOKUP, 1, 0, b"nothing\0"));
    });
    let order: Vec<_> = (0..releases + lookups).map(|_| kernel.receive().unique).collect();
    kernel.hang_up();
    let first = order.iter().min().copied().unwrap_or_default();
    order.into_iter().map(|unique| (unique - first) / 2).collect()
}

#[test]
fn what_was_put_off_is_done_when_there_is_nothing_to_read_without_being_asked() {
    assert_eq!(closes_then_lookups(1, 1), [1, 0]);
    assert_eq!(closes_then_lookups(2, 1), [2, 1, 0]);
    assert_eq!(closes_then_lookups(1, 0), [0]);
}

#[test]
fn what_was_put_off_is_done_though_there_is_always_something_to_read() {
    let order = closes_then_lookups(1, 100);
    let at = order.iter().position(|number| *number == 0);
    assert!(at.is_some_and(|at| at < 40), "{order:?}");
}

#[test]
fn what_was_put_off_is_done_when_the_kernel_is_gone() {
    let fs = Gated::default();
    fs.hold("release");
    let body = abi::ReleaseIn::default();
    let kernel = Kernel::with(&fs, Config::default(), |kernel| {
        (0..3).for_each(|_| _ = kernel.send(opcode::RELEASE, 2, 0, body.as_bytes()));
    });
    kernel.hang_up();
    fs.until("all are closed", |counts| counts.is_ended && counts.opens == -3);
}

#[test]
fn hanging_up_ends_a_session_with_requests_under_way() {
    let fs = Gated::default();
    let mut kernel = Kernel::new(&fs, Config::default());
    for _ in 0..10 {
        kernel.send(opcode::LOOKUP, 1, 0, b"stuck\0");
    }
    fs.until("all wait", |counts| counts.waiting == 10);
    kernel.hang_up();
    fs.until("it ends", |counts| counts.is_ended);
}

#[test]
fn notifications_reach_the_kernel_but_not_from_those_it_waits_for() {
    let fs = Gated::default();
    let mut kernel = Kernel::new(&fs, Config::default());
    let notifier = kernel.running.as_ref().unwrap().notifier();
    notifier.inval_inode(2, 0, 0).unwrap();
    let said = kernel.receive();
    assert_eq!((said.unique, -said.error), (0, abi::notify::INVAL_INODE));
    assert_eq!(said.body[..8], 2_u64.to_ne_bytes());
    fs.notify_with(notifier.clone());
    let access = kernel.send(opcode::ACCESS, 1, 0, abi::AccessIn::default().as_bytes());
    kernel.expect(access, Errno::DEADLK);
    kernel.hang_up();
    assert!(notifier.inval_inode(2, 0, 0).is_err(), "nobody is there");
}
