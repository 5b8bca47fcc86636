//! The session of one mount: its channels to the kernel, its pending requests, and its threads.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice};
use zerocopy::IntoBytes;

use super::abi;
use super::crew::{Crew, Post};
use super::dropper::Dropper;
use super::init::{Agreement, WRITE_SIZE_MAX, agree};
use super::notify::Notifier;
use super::pending::{Early, Patience, Pending, Underway};
use super::reply::{Delivery, Reply, Undelivered};
use super::request::{Operation, Request};
use super::task::Tasks;
use super::watch::{Watch, is_doomed};

/// Size of the buffer for one request, bytes: the largest write, and the headers before its data.
pub(super) const BUFFER_SIZE: usize = WRITE_SIZE_MAX as usize + 4096;
/// Answers up to this size, in bytes, are copied together and written in one piece. That covers all
/// answers but contents, listings and long extended attributes.
const SMALL_ANSWER: usize = 256;
/// A reader gives the mount up after this many failures to read in a row. It pauses for
/// `READ_PAUSE` after each.
const READ_FAILURES_MAX: u32 = 100;
const READ_PAUSE: Duration = Duration::from_millis(10);
/// How long a reader polls for the next request before it sleeps. It is worth a few wake-ups
/// (docs/BENCHMARKS-HISTORY.md).
const LINGER: Duration = Duration::from_micros(50);
/// How long a reader polls before it runs postponed work. A busy program sends its next request
/// sooner.
const PUT_OFF_FOR: Duration = Duration::from_micros(20);
/// After this many requests in a row, a reader runs postponed work even if more requests are
/// waiting.
const IN_A_ROW_MAX: u32 = 32;
/// How long the end of a session waits for pending requests.
const GRACE: Duration = Duration::from_secs(5);

/// Counters: names and values.
pub type Counts = Vec<(&'static str, u64)>;

/// Number of opcodes that are counted. All opcodes in use are smaller.
const OPCODES: usize = 64;

/// A file system that a session serves. The session's threads call its methods.
pub trait FileSystem: Send + Sync + 'static {
    /// Answers a request now, or arranges for a later answer ([`Reply::run`], [`Reply::queue`]).
    /// The session itself handles INIT, DESTROY, INTERRUPT, FORGET and BATCH_FORGET.
    fn handle(&self, request: &Request<'_>, reply: Reply);
    /// Tells that the kernel forgets `count` lookups of `node`.
    fn forget(&self, node: u64, count: u64);
    /// Runs once at the start of each thread that will call the other methods.
    fn thread_begins(&self) {}
    /// Runs work that answers did not have to wait for. The answers have left, and there is no
    /// request to read at the moment.
    fn afterwards(&self) {}
    /// Whether there are postponed requests: their callers do not wait, so they run when no other
    /// request does.
    fn has_put_off(&self) -> bool {
        false
    }
    /// Runs the postponed requests, or the oldest of them.
    fn catch_up(&self) {}
    /// Ends the file system. The last request is answered or given up.
    fn end(&self) {}
    /// Whether the file system keeps locks of files. Otherwise the kernel keeps them, for this
    /// mount alone.
    fn keeps_locks(&self) -> bool {
        false
    }
    /// Further counters of the file system.
    fn counters(&self) -> Counts {
        Vec::new()
    }
}

/// Settings of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of threads that read requests concurrently, at least 1.
    pub readers: usize,
    /// Whether listings carry attributes (READDIRPLUS).
    pub readdir_plus: bool,
    /// Whether the kernel sends locks of files to this session.
    pub file_locks: bool,
    /// How long an operation on names or attributes goes on after a signal that does not kill.
    pub signal_patience: Duration,
    /// How long an operation on contents goes on after a signal that does not kill. Such operations
    /// may rightly take longer.
    pub content_patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            readers: 1,
            readdir_plus: false,
            file_locks: false,
            signal_patience: Duration::from_secs(1),
            content_patience: Duration::from_secs(10),
        }
    }
}

/// The session of one mount.
pub struct Session {
    channels: Vec<OwnedFd>,
    pub(super) fs: Arc<dyn FileSystem>,
    config: Config,
    pub(super) pending: Pending,
    pub(super) crew: Crew,
    pub(super) tasks: Arc<Tasks>,
    pub(super) watch: Watch,
    /// How long a reader polls for the next request before it sleeps.
    linger: Duration,
    /// The error that ended reading, if it was not an unmount.
    failure: Mutex<Option<Errno>>,
    /// Number of requests read, by opcode.
    requests: [AtomicU64; OPCODES],
    /// Has the kernel drop pages from another process. If it is not set, this process does so
    /// itself.
    dropper: OnceLock<Dropper>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("channels", &self.channels).finish_non_exhaustive()
    }
}

/// A session that has been started.
#[derive(Debug)]
pub struct Running {
    session: Arc<Session>,
    main: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Whether the session is over because the mount was unmounted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.main.is_finished()
    }

    /// Sets the command that drops pages for this mount, in a process of its own. It calls
    /// [`drop_pages`](super::drop_pages()).
    pub fn drop_pages_by(&self, program: Vec<OsString>) {
        let _ = self.session.dropper.set(Dropper::new(program));
    }

    /// A sender of notifications to the kernel.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        Notifier(Arc::downgrade(&self.session))
    }

    /// Number of requests read so far, for each kind that occurred, under the kernel's names. The
    /// second list is the file system's own counters.
    #[must_use]
    pub fn counters(&self) -> (Counts, Counts) {
        let count = |code: u32| self.session.requests.get(code as usize);
        let of = |code| count(code).map_or(0, |count| count.load(Ordering::Relaxed));
        let requests = abi::opcode::NAMES.iter().map(|(code, name)| (*name, of(*code)));
        (requests.filter(|(_, count)| *count > 0).collect(), self.session.fs.counters())
    }

    /// Waits until the session is over. Returns the error that ended reading, if there was one.
    pub fn join(self) -> io::Result<()> {
        drop(self.session);
        let panicked = |_| io::Error::other("the thread of a mount panicked");
        self.main.join().map_err(panicked)?
    }
}

/// Agrees with the kernel on version and flags over `channel`. Blocks until the kernel has sent
/// INIT.
pub fn shake_hands(channel: &OwnedFd, config: &Config) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        let len = match rustix::io::read(channel, &mut buffer) {
            Ok(0) | Err(Errno::NODEV) => {
                return Err(io::Error::other("it was unmounted before it was in use"));
            }
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            other => other?,
        };
        let request = match Request::parse(&buffer[..len]) {
            Ok(request) => request,
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    write(channel, unique, Errno::IO.raw_os_error(), &[])?;
                }
                continue;
            }
        };
        let Operation::Init(offer) = request.operation else {
            if !matches!(request.operation, Operation::Forget { .. } | Operation::BatchForget(_)) {
                write(channel, request.unique, Errno::IO.raw_os_error(), &[])?;
            }
            continue;
        };
        match agree(&offer, config.readdir_plus, config.file_locks) {
            Agreement::Agreed(out) => {
                return Ok(write(channel, request.unique, 0, &[out.as_bytes()])?);
            }
            Agreement::Again(out) => write(channel, request.unique, 0, &[out.as_bytes()])?,
            Agreement::TooOld => {
                write(channel, request.unique, Errno::PROTO.raw_os_error(), &[])?;
                let (major, minor) = (offer.major, offer.minor);
                let text = format!(
                    "the kernel speaks version {major}.{minor} of the FUSE protocol; 7.{} (Linux 5.4) is the oldest served",
                    abi::MINOR_OLDEST
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        }
    }
}

/// Begins to serve, after [`shake_hands`]. Readers are spread over the channels. There must be at
/// least one channel.
pub fn start(
    channels: Vec<OwnedFd>,
    fs: Arc<dyn FileSystem>,
    config: Config,
) -> io::Result<Running> {
    let session = Arc::new(Session {
        crew: Crew::new(config.readers.max(1) + 1),
        channels,
        fs,
        config,
        pending: Pending::default(),
        tasks: Arc::default(),
        watch: Watch::default(),
        // With one CPU, the caller can run only while the reader sleeps.
        linger: match std::thread::available_parallelism() {
            Ok(cpus) if cpus.get() > 1 => LINGER,
            _ => Duration::ZERO,
        },
        failure: Mutex::default(),
        requests: [const { AtomicU64::new(0) }; OPCODES],
        dropper: OnceLock::new(),
    });
    let watch = {
        let session = Arc::clone(&session);
        let thread = std::thread::Builder::new().name("pando-watch".to_owned());
        thread.spawn(move || session.look_on())?
    };
    session.staff()?;
    let served = Arc::clone(&session);
    let thread = std::thread::Builder::new().name("pando-mount".to_owned());
    let main = thread.spawn(move || served.see_to_the_end(watch))?;
    Ok(Running { session, main })
}

impl Session {
    /// Works at a post until the thread loses it or the session is over.
    pub(super) fn hold(self: &Arc<Self>, post: Post, buffer: &mut Vec<u8>) {
        // The last role is the task runner's.
        if post.role < self.config.readers.max(1) {
            self.read_requests(post, buffer);
        } else {
            self.run_tasks(post);
        }
    }

    fn read_requests(self: &Arc<Self>, post: Post, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            // The allocator takes these zeros from the kernel. Pages that no request reaches are
            // never touched.
            *buffer = vec![0; BUFFER_SIZE];
        }
        let channel = post.role % self.channels.len();
        // The previous holder of the post may have postponed work.
        let Some(mut post) = self.linger(channel, post) else { return };
        let mut failures = 0;
        let mut in_a_row: u32 = 0;
        loop {
            let len = match rustix::io::read(&self.channels[channel], &mut buffer[..]) {
                // The mount was unmounted, or a test that plays the kernel has hung up.
                Ok(0) | Err(Errno::NODEV) => return self.nothing_more(None),
                Ok(len) => len,
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
                Err(errno) if failures == READ_FAILURES_MAX => {
                    return self.nothing_more(Some(errno));
                }
                // Memory may be short. The kernel has answered that request itself.
                Err(_) => {
                    failures += 1;
                    std::thread::sleep(READ_PAUSE);
                    continue;
                }
            };
            failures = 0;
            in_a_row = in_a_row.wrapping_add(1);
            let is_due = in_a_row.is_multiple_of(IN_A_ROW_MAX) && self.fs.has_put_off();
            let held = self.work_at(post, || {
                self.take(&buffer[..len], channel);
                if is_due {
                    self.fs.catch_up();
                }
            });
            match held.and_then(|post| self.linger(channel, post)) {
                Some(again) => post = again,
                None => return,
            }
        }
    }

    fn run_tasks(&self, mut post: Post) {
        while let Some(task) = self.tasks.next() {
            match self.work_at(post, || task.run()) {
                Some(again) => post = again,
                None => return,
            }
        }
    }

    /// Runs `work` as the holder of a post. Returns `None` if another thread has the post now.
    fn work_at(&self, post: Post, work: impl FnOnce()) -> Option<Post> {
        self.crew.begin(post);
        self.watch.wake();
        work();
        self.crew.end()
    }

    /// Polls for the next request before the thread sleeps. A wake-up from another CPU costs both
    /// sides more than that. Meanwhile the thread runs all postponed work, then yields the CPU.
    /// Returns `None` if another thread has the post.
    fn linger(&self, channel: usize, mut post: Post) -> Option<Post> {
        let begun = Instant::now();
        let (until, busy) = (begun + self.linger, begun + PUT_OFF_FOR.min(self.linger));
        let mut is_first = true;
        loop {
            let mut ready = [PollFd::new(&self.channels[channel], PollFlags::IN)];
            // The read that follows handles requests and errors.
            if !matches!(poll(&mut ready, Some(&Timespec::default())), Ok(0)) {
                return Some(post);
            }
            if std::mem::take(&mut is_first) {
                self.fs.afterwards();
            }
            let now = Instant::now();
            if now >= busy && self.fs.has_put_off() {
                post = self.work_at(post, || self.fs.catch_up())?;
                continue;
            }
            if now >= until {
                return Some(post);
            }
            std::thread::yield_now();
        }
    }

    fn take(self: &Arc<Self>, bytes: &[u8], channel: usize) {
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    let _ = self.write(channel, unique, Errno::IO.raw_os_error(), &[]);
                }
                return;
            }
        };
        let unique = request.unique;
        if let Some(count) = self.requests.get(request.opcode as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        match &request.operation {
            Operation::Forget { count } => self.fs.forget(request.node, *count),
            Operation::BatchForget(all) => {
                all.clone().for_each(|(node, count)| self.fs.forget(node, count));
            }
            Operation::Interrupt { unique: target } => {
                self.interrupted(Early { target: *target, unique, channel });
            }
            Operation::Destroy => {
                let _ = self.write(channel, unique, 0, &[]);
            }
            // The session has already agreed with the kernel.
            Operation::Init(_) => {
                let _ = self.write(channel, unique, Errno::IO.raw_os_error(), &[]);
            }
            _ => {
                let patience = self.patience(&request.operation);
                let pid = request.caller.pid;
                let underway = Underway { channel, pid, patience, interrupted: None, seen: None };
                let begun = self.pending.begin(unique, underway);
                begun.unknown.into_iter().for_each(|early| self.not_now(early));
                if begun.is_interrupted && is_doomed(pid) {
                    self.cut_short(unique);
                }
                self.fs.handle(&request, Reply::new(Arc::clone(self), channel, unique));
            }
        }
    }

    fn patience(&self, operation: &Operation<'_>) -> Patience {
        let is_content = matches!(
            operation,
            Operation::Read { .. }
                | Operation::Write { .. }
                | Operation::Flush { .. }
                | Operation::Fsync
                | Operation::Fsyncdir
                | Operation::Fallocate { .. }
                | Operation::Lseek { .. }
                | Operation::CopyFileRange { .. }
        );
        let Config { signal_patience, content_patience, .. } = self.config;
        let after_signal = match operation {
            // A handler that waits for a lock checks for signals itself ([`Reply::is_wanted`]). So
            // it never takes a lock for a caller that has given up.
            Operation::Setlk { waits: true, .. } => Duration::MAX,
            _ if is_content => content_patience,
            _ => signal_patience,
        };
        Patience { after_signal, at_exit: matches!(operation, Operation::Flush { .. }) }
    }

    /// Notes that a signal came to the caller of a request. A caller that is being killed is
    /// answered at once; the watch sees to the others.
    fn interrupted(&self, early: Early) {
        match self.pending.interrupt(early) {
            Ok(request) if is_doomed(request.pid) => self.cut_short(early.target),
            Ok(_) => {}
            Err(oldest) => oldest.into_iter().for_each(|early| self.not_now(early)),
        }
    }

    /// Answers an interrupt of a request that is not known here. The kernel repeats the interrupt
    /// while the request is unanswered.
    fn not_now(&self, early: Early) {
        let _ = self.write(early.channel, early.unique, Errno::AGAIN.raw_os_error(), &[]);
    }

    /// Sends an answer, unless one was sent already.
    pub(super) fn answer(
        &self,
        channel: usize,
        unique: u64,
        errno: i32,
        parts: &[&[u8]],
    ) -> Delivery {
        self.pending.end(unique).ok_or(Undelivered)?;
        match self.write(channel, unique, errno, parts) {
            Ok(()) => Ok(()),
            // The kernel does not wait for the answer any more, or is gone.
            Err(Errno::NOENT | Errno::NODEV | Errno::PIPE) => Err(Undelivered),
            Err(_) => {
                // The kernel rejected the answer, for lack of memory or by an error of this code.
                // It still waits for one.
                let _ = self.write(channel, unique, Errno::IO.raw_os_error(), &[]);
                Err(Undelivered)
            }
        }
    }

    pub(super) fn write(
        &self,
        channel: usize,
        unique: u64,
        error: i32,
        parts: &[&[u8]],
    ) -> Result<(), Errno> {
        // An answer carries its error as a negative number. A notification has `unique` 0, and
        // carries its code as it is.
        write(&self.channels[channel], unique, error, parts)
    }

    /// Has the kernel drop all pages of a node, and waits until it has. Returns `None` if this
    /// process has to do so itself.
    pub(super) fn drop_pages(&self, node: u64) -> Option<Result<(), Errno>> {
        self.dropper.get()?.drop_pages(&self.channels[0], node)
    }

    fn nothing_more(&self, errno: Option<Errno>) {
        while self.fs.has_put_off() {
            self.fs.catch_up();
        }
        if let Some(errno) = errno {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(errno);
        }
        self.crew.close();
    }

    /// Waits for the last reader, then ends the rest. Pending requests have [`GRACE`] to finish.
    fn see_to_the_end(&self, watch: JoinHandle<()>) -> io::Result<()> {
        self.crew.await_close();
        let deadline = Instant::now() + GRACE;
        // The task runner stays until the tasks are closed.
        self.crew.await_threads(1, deadline);
        while self.tasks.waiting() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.tasks.close();
        self.crew.await_threads(0, deadline.max(Instant::now() + Duration::from_secs(1)));
        self.watch.stop();
        let _ = watch.join();
        self.fs.end();
        match *self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(errno) => {
                let text = format!("requests cannot be read from the kernel any more: {errno}");
                Err(io::Error::new(io::Error::from(errno).kind(), text))
            }
            None => Ok(()),
        }
    }
}

/// Writes one answer or one notification. For an answer, `error` is 0 or the errno. With `unique` 0
/// it is a notification, and `error` is its code.
pub(super) fn write(
    channel: &OwnedFd,
    unique: u64,
    error: i32,
    parts: &[&[u8]],
) -> Result<(), Errno> {
    let len = parts.iter().map(|part| part.len()).sum::<usize>() + size_of::<abi::OutHeader>();
    let error = if unique == 0 { error } else { -error };
    let header = abi::OutHeader { len: len as u32, error, unique };
    let mut small = [0; SMALL_ANSWER];
    if len <= SMALL_ANSWER {
        // In one piece: the kernel looks up the pages of each piece.
        let mut at = 0;
        for part in std::iter::once(&header.as_bytes()).chain(parts) {
            small[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        return retried(|| rustix::io::write(channel, &small[..len]));
    }
    let mut slices = [IoSlice::new(&[]); 4];
    slices[0] = IoSlice::new(header.as_bytes());
    for (slice, part) in slices[1..].iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    retried(|| rustix::io::writev(channel, &slices[..=parts.len()]))
}

/// Repeats an interrupted write. The device takes all of a write or nothing.
fn retried(write: impl Fn() -> Result<usize, Errno>) -> Result<(), Errno> {
    loop {
        match write() {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
