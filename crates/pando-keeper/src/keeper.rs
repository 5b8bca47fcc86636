//! The keeper's loop: one thread that polls, and acts on one event after the other.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::channels::{self, REQUEST_MAX};
use crate::kernel;
use crate::message::{
    DESCRIPTORS_MAX, Descriptors, Kind, Message, Mode, NO_DESCRIPTORS, pair, receive, send,
    take_memory,
};
use crate::program::Program;
use crate::successors::Successors;

/// Exit code of a keeper that gave its mount up.
const GIVEN_UP: u8 = 1;
/// What shells add to the number of a signal that ended a process.
const BY_SIGNAL: i32 = 128;
/// How long a keeper that gives its mount up polls for what still waits in it.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What a keeper is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Arguments of the server process, which is this same program; the first one is its name.
    pub arguments: Vec<OsString>,
    /// How long programs wait for a process that serves. Then the mount is ended.
    pub lease: Duration,
}

impl Plan {
    /// The lease of all mounts but those of tests.
    pub const LEASE: Duration = Duration::from_secs(60);
}

/// Keeps a mount: starts the server process, and a successor whenever it dies. Returns the exit
/// code of this process once the mount is over: that of the server process, if it never had a
/// mount or has ended it. To be called by the only thread of a process.
pub fn keep(plan: Plan) -> io::Result<u8> {
    let mut keeper = Keeper {
        signals: kernel::signals()?,
        program: Program::own(plan.arguments)?,
        server: None,
        held: None,
        generation: 0,
        over: None,
        stopping: None,
        successors: Successors::new(plan.lease),
        buffer: vec![0; REQUEST_MAX],
    };
    keeper.start()?;
    loop {
        if let Some(code) = keeper.turn() {
            return Ok(code);
        }
    }
}

/// The mount that is kept.
struct Held {
    channels: Descriptors,
    /// Records of the server process, which the keeper cannot read.
    memory: Option<OwnedFd>,
    number: u64,
    mode: Mode,
    /// The channel says that the mount is gone, so it is not polled any more.
    is_unmounted: bool,
}

struct Server {
    pidfd: OwnedFd,
    /// `None` once the process has closed its end.
    socket: Option<OwnedFd>,
}

struct Keeper {
    signals: OwnedFd,
    program: Program,
    server: Option<Server>,
    held: Option<Held>,
    generation: u64,
    /// The server process has ended the mount, and exits with this code.
    over: Option<i32>,
    /// The keeper was told to stop. It starts one more successor at most.
    stopping: Option<Signal>,
    successors: Successors,
    /// For requests that are refused at the end. Its pages are not touched before.
    buffer: Vec<u8>,
}

impl Held {
    fn first(&self) -> Option<&OwnedFd> {
        self.channels[0].as_ref()
    }
}

impl Keeper {
    /// Starts a server process, of the generation that is set.
    fn start(&mut self) -> Result<(), Errno> {
        let (ours, theirs) = pair()?;
        let memory = self.held.as_ref().and_then(|held| held.memory.as_ref());
        let has_memory = memory.is_some();
        let take = Message { has_memory, ..Message::new(Kind::Take, self.generation) };
        let memory = memory.map(AsFd::as_fd);
        send(&ours, take, memory.as_slice())?;
        let pidfd = kernel::spawn(&self.program, theirs.as_fd())?;
        self.server = Some(Server { pidfd, socket: Some(ours) });
        Ok(())
    }

    /// Waits for one round of events, and acts on them. Returns the exit code at the end.
    fn turn(&mut self) -> Option<u8> {
        self.await_events();
        self.hear();
        self.pass_signals_on();
        let now = Instant::now();
        if let Some(code) = self.reap() {
            return self.bereaved(code, now);
        }
        if self.successors.is_over(now) {
            return Some(self.give_up("no process has served it for too long"));
        }
        if self.server.is_none() && self.successors.is_due(now) {
            self.successors.started(now);
            self.generation += 1;
            if let Err(errno) = self.start() {
                say(format_args!("cannot start a successor: {errno}"));
                self.successors.died(now);
            }
        }
        None
    }

    fn await_events(&mut self) {
        let wait = self.successors.wait(Instant::now());
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let polled = {
            // Places that are not needed poll the signals once more.
            let nothing = || PollFd::new(&self.signals, PollFlags::IN);
            let server = self.server.as_ref();
            let watched = self.held.as_ref().filter(|held| !held.is_unmounted);
            let mut events = [
                nothing(),
                server.map_or_else(nothing, |of| PollFd::new(&of.pidfd, PollFlags::IN)),
                (server.and_then(|of| of.socket.as_ref()))
                    .map_or_else(nothing, |socket| PollFd::new(socket, PollFlags::IN)),
                // No events: only the end of the mount wakes the keeper, not its requests.
                (watched.and_then(Held::first))
                    .map_or_else(nothing, |channel| PollFd::new(channel, PollFlags::empty())),
            ];
            let polled = poll(&mut events, wait.as_ref());
            polled.map(|_| watched.is_some() && events[3].revents().contains(PollFlags::ERR))
        };
        if let (Ok(true), Some(held)) = (polled, &mut self.held) {
            held.is_unmounted = true;
        }
    }

    /// Acts on all messages that are there.
    fn hear(&mut self) {
        loop {
            let Some(socket) = self.server.as_ref().and_then(|server| server.socket.as_ref())
            else {
                return;
            };
            let mut came = NO_DESCRIPTORS;
            let heard = match receive(socket, &mut came) {
                Ok(Some(message)) => self.act(message, came),
                Ok(None) | Err(Errno::CONNRESET) => {
                    self.hung_up();
                    return;
                }
                Err(Errno::AGAIN) => return,
                Err(errno) => Err(errno),
            };
            if let Err(errno) = heard {
                // As if it had crashed: a successor may do better.
                say(format_args!(
                    "the server process is killed, for it broke the protocol: {errno}"
                ));
                self.kill();
                return;
            }
        }
    }

    fn act(&mut self, message: Message, mut came: Descriptors) -> Result<(), Errno> {
        match message.kind {
            Kind::Keep => {
                let mode = Mode::from_code(message.code).ok_or(Errno::PROTO)?;
                let memory = take_memory(message, &mut came)?;
                if came[0].is_none() || self.held.is_some() {
                    return Err(Errno::PROTO);
                }
                let number = message.number;
                let channels = came;
                self.held = Some(Held { channels, memory, number, mode, is_unmounted: false });
                self.tell(Message::new(Kind::Kept, self.generation), &[])
            }
            Kind::Ready => {
                let held = self.held.as_ref().ok_or(Errno::PROTO)?;
                let (number, code) = (held.number, held.mode.code());
                let go = Message { number, code, ..Message::new(Kind::Go, self.generation) };
                let mut channels = [self.signals.as_fd(); DESCRIPTORS_MAX];
                let mut count = 0;
                for (place, channel) in channels.iter_mut().zip(held.channels.iter().flatten()) {
                    *place = channel.as_fd();
                    count += 1;
                }
                self.tell(go, &channels[..count])?;
                self.successors.goes();
                if let (Some(signal), Some(server)) = (self.stopping, &self.server) {
                    let _ = pidfd_send_signal(&server.pidfd, signal);
                }
                Ok(())
            }
            Kind::Serving => {
                self.successors.serves_well();
                Ok(())
            }
            Kind::Over => {
                self.over = Some(message.code);
                Ok(())
            }
            Kind::Take | Kind::Kept | Kind::Go => Err(Errno::PROTO),
        }
    }

    fn tell(&self, message: Message, channels: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let socket = self.server.as_ref().and_then(|server| server.socket.as_ref());
        match send(socket.ok_or(Errno::PIPE)?, message, channels) {
            // It is dead. The pidfd will tell.
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            sent => sent,
        }
    }

    /// The server process has closed its socket. It may live on, and read.
    fn hung_up(&mut self) {
        if let Some(server) = &mut self.server {
            server.socket = None;
        }
        if is_planted!(ResendBeforeDeath) {
            let _ = self.resend();
        }
    }

    fn kill(&self) {
        if let Some(server) = &self.server {
            let _ = pidfd_send_signal(&server.pidfd, Signal::KILL);
        }
    }

    fn pass_signals_on(&mut self) {
        // `struct signalfd_siginfo` begins with the signal's number.
        let mut info = [0; 128];
        while let Ok(128) = rustix::io::read(&self.signals, &mut info) {
            let number = i32::from_ne_bytes([0, 1, 2, 3].map(|n| info[n]));
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            self.stopping = Some(signal);
            if let Some(server) = &self.server {
                let _ = pidfd_send_signal(&server.pidfd, signal);
            }
        }
    }

    /// The exit code of the server process, if all of its threads are gone.
    fn reap(&mut self) -> Option<i32> {
        let server = self.server.as_ref()?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::PidFd(server.pidfd.as_fd()), options).ok()??;
        // It may have said something just before.
        self.hear();
        self.server = None;
        let code = status.exit_status();
        Some(code.or(status.terminating_signal().map(|signal| BY_SIGNAL + signal)).unwrap_or(0))
    }

    /// The server process is dead: nobody reads. Returns the keeper's exit code, if that is to end.
    fn bereaved(&mut self, code: i32, now: Instant) -> Option<u8> {
        if self.held.is_none() || self.over.is_some() {
            return Some(u8::try_from(self.over.unwrap_or(code)).unwrap_or(GIVEN_UP));
        }
        let was_stopped = self.stopping.is_some() && self.generation > 0;
        say(format_args!("the server process has ended with code {code}; programs wait"));
        if let Err(errno) = self.resend() {
            say(format_args!("the kernel cannot be asked to send requests again: {errno}"));
            return Some(self.give_up("its requests cannot be read again"));
        }
        if was_stopped {
            return Some(self.give_up("it was to be stopped, and a successor did not end it"));
        }
        self.successors.died(now);
        None
    }

    /// From here on programs that wait can be killed.
    fn resend(&self) -> Result<(), Errno> {
        if is_planted!(SecondCrashNotResent) && self.generation > 0 {
            return Ok(());
        }
        let Some(held) = self.held.as_ref().filter(|held| held.mode == Mode::Resend) else {
            return Ok(());
        };
        match held.first().map_or(Ok(()), channels::resend) {
            // It is unmounted: nothing waits.
            Err(Errno::NODEV | Errno::PERM | Errno::NOTCONN) => Ok(()),
            resent => resent,
        }
    }

    /// Ends the mount: calls under way get `ECONNABORTED`, later ones `ENOTCONN`.
    fn give_up(&mut self, why: &str) -> u8 {
        say(format_args!("the mount is ended: {why}"));
        self.kill();
        if let Some(held) = self.held.take() {
            abort(held.number);
            self.bury(&held);
        }
        GIVEN_UP
    }

    /// Refuses requests until the server process is gone: one of its threads may wait for an
    /// answer, and would keep the connection. The last descriptor ends that.
    fn bury(&mut self, held: &Held) {
        let Some(channel) = held.first() else { return };
        // Another request may be withdrawn between the poll and the read.
        let _ = rustix::fs::fcntl_setfl(channel, OFlags::NONBLOCK);
        while self.server.is_some() && self.reap().is_none() {
            let mut ready = [PollFd::new(channel, PollFlags::IN)];
            if !matches!(poll(&mut ready, Some(&LOOK)), Ok(1..)) {
                continue;
            }
            match channels::read(channel, &mut self.buffer) {
                Ok(Some(request)) if request.wants_answer() => {
                    let _ = channels::refuse(channel, request.unique, Errno::CONNABORTED);
                }
                Ok(_) => {}
                // It is gone.
                Err(_) => std::thread::sleep(Duration::from_nanos(LOOK.tv_nsec.cast_unsigned())),
            }
        }
    }
}

/// Aborts a connection by its number. The file belongs to the user that mounted. It is missing if
/// the system has not mounted fusectl; then the last descriptor that is closed does the same.
fn abort(number: u64) {
    use std::io::Write;
    let mut path = [0; 64];
    let mut left = &mut path[..];
    if write!(left, "/sys/fs/fuse/connections/{number}/abort").is_ok() {
        let unused = left.len();
        let len = path.len() - unused;
        let (flags, mode) = (OFlags::WRONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty());
        if let Ok(file) = rustix::fs::open(&path[..len], flags, mode) {
            let _ = rustix::io::write(&file, b"1");
        }
    }
}

/// Writes a line for people, without allocating. The disk with the log may be full.
fn say(what: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let mut line = [0; 256];
    let mut left = &mut line[..];
    // A line that is too long is cut off.
    let _ = writeln!(left, "pando: keeper: {what}");
    let unused = left.len();
    let len = line.len() - unused;
    let _ = io::stderr().write_all(&line[..len]);
}
