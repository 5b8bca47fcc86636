//! A file system at work: channels to the kernel, what is under way, and who does it.

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

/// Room for the largest request: what a write brings, and what stands before it.
pub(super) const BUFFER_SIZE: usize = WRITE_SIZE_MAX as usize + 4096;
/// Answers up to this size are written in one piece: all but contents, listings and long
/// attributes.
const SMALL_ANSWER: usize = 256;
/// Failures to read in a row after which a mount is given up, and how long it waits after each.
const READ_FAILURES_MAX: u32 = 100;
const READ_PAUSE: Duration = Duration::from_millis(10);
/// How long a reader looks for the next request before it sleeps: some wake-ups' worth
/// (docs/BENCHMARKS-HISTORY.md).
const LINGER: Duration = Duration::from_micros(50);
/// How much of that passes before it does what was put off: whoever is busy asks for the next thing
/// sooner.
const PUT_OFF_FOR: Duration = Duration::from_micros(20);
/// Requests read in a row after which what was put off is done, though there are more to read.
const IN_A_ROW_MAX: u32 = 32;
/// How long the end waits for operations that are under way.
const GRACE: Duration = Duration::from_secs(5);

/// What was counted, by name.
pub type Counts = Vec<(&'static str, u64)>;

/// Opcodes that are counted: above all there are.
const OPCODES: usize = 64;

/// What is served. Methods run in threads of the session.
pub trait FileSystem: Send + Sync + 'static {
    /// Answers a request now, or sees to it that it is answered later ([`Reply::run`],
    /// [`Reply::queue`]). Any but INIT, DESTROY, INTERRUPT, FORGET and BATCH_FORGET.
    fn handle(&self, request: &Request<'_>, reply: Reply);
    /// The kernel forgets `count` lookups of a node.
    fn forget(&self, node: u64, count: u64);
    /// A thread begins that will call the others.
    fn thread_begins(&self) {}
    /// Answers have left, and there is nothing to read at the moment: to be done now is what they
    /// did not have to wait for.
    fn afterwards(&self) {}
    /// Whether there are requests whose callers do not wait, kept for a moment in which nobody else
    /// does.
    fn has_put_off(&self) -> bool {
        false
    }
    /// Does these, or the oldest of them.
    fn catch_up(&self) {}
    /// It is over: the last request was answered, or given up.
    fn end(&self) {}
    /// Whether it keeps locks of files; else the kernel does, of this mount's.
    fn keeps_locks(&self) -> bool {
        false
    }
    /// What else it counts.
    fn counters(&self) -> Counts {
        Vec::new()
    }
}

/// How a session works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Threads that read requests at the same time; above 0.
    pub readers: usize,
    /// Whether listings carry attributes.
    pub readdir_plus: bool,
    /// Whether locks of files are asked for here.
    pub file_locks: bool,
    /// A signal that does not kill is heeded after this time, by operations on names and
    /// attributes.
    pub signal_patience: Duration,
    /// The same of operations on contents, which may rightly take longer.
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

/// One mount's session.
pub struct Session {
    channels: Vec<OwnedFd>,
    pub(super) fs: Arc<dyn FileSystem>,
    config: Config,
    pub(super) pending: Pending,
    pub(super) crew: Crew,
    pub(super) tasks: Arc<Tasks>,
    pub(super) watch: Watch,
    /// How long a reader looks for the next request before it sleeps.
    linger: Duration,
    /// Why reading ended, if not by an unmount.
    failure: Mutex<Option<Errno>>,
    /// Requests read, by opcode.
    requests: [AtomicU64; OPCODES],
    /// Who has the kernel drop pages, if this process does not itself.
    dropper: OnceLock<Dropper>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("channels", &self.channels).finish_non_exhaustive()
    }
}

/// A session that was begun.
#[derive(Debug)]
pub struct Running {
    session: Arc<Session>,
    main: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Whether it is over, because someone unmounted it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.main.is_finished()
    }

    /// Has pages dropped by a process of its own: what is run for it calls
    /// [`drop_pages`](super::drop_pages()).
    pub fn drop_pages_by(&self, program: Vec<OsString>) {
        let _ = self.session.dropper.set(Dropper::new(program));
    }

    /// For what the kernel should know.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        Notifier(Arc::downgrade(&self.session))
    }

    /// Requests read so far, for each kind with any, named as the kernel's; and what the file
    /// system itself counts.
    #[must_use]
    pub fn counters(&self) -> (Counts, Counts) {
        let count = |code: u32| self.session.requests.get(code as usize);
        let of = |code| count(code).map_or(0, |count| count.load(Ordering::Relaxed));
        let requests = abi::opcode::NAMES.iter().map(|(code, name)| (*name, of(*code)));
        (requests.filter(|(_, count)| *count > 0).collect(), self.session.fs.counters())
    }

    /// Waits until it is over.
    pub fn join(self) -> io::Result<()> {
        drop(self.session);
        let panicked = |_| io::Error::other("the thread of a mount panicked");
        self.main.join().map_err(panicked)?
    }
}

/// Agrees with the kernel over `channel`. Blocks until it has asked.
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

/// Begins to serve, after [`shake_hands`]. Readers are spread over the channels, of which there
/// must be one at least.
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
        // On one CPU the caller runs only if the reader sleeps.
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
    /// What a thread does that was given a post.
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
            // Zeros from the kernel: pages that no request reaches are never touched.
            *buffer = vec![0; BUFFER_SIZE];
        }
        let channel = post.role % self.channels.len();
        // Who had the post before may have put something off.
        let Some(mut post) = self.linger(channel, post) else { return };
        let mut failures = 0;
        let mut in_a_row: u32 = 0;
        loop {
            let len = match rustix::io::read(&self.channels[channel], &mut buffer[..]) {
                // Unmounted; or whoever plays the kernel has hung up.
                Ok(0) | Err(Errno::NODEV) => return self.nothing_more(None),
                Ok(len) => len,
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
                Err(errno) if failures == READ_FAILURES_MAX => {
                    return self.nothing_more(Some(errno));
                }
                // For want of memory, say; the kernel has answered that request itself.
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

    /// Does something as the holder of a post. Nothing: somebody else has it now.
    fn work_at(&self, post: Post, work: impl FnOnce()) -> Option<Post> {
        self.crew.begin(post);
        self.watch.wake();
        work();
        self.crew.end()
    }

    /// Looks for the next request for a moment before sleeping: a wake-up from another CPU costs
    /// both sides more than that. Meanwhile what was put off is done, all of it before this thread
    /// sleeps; then whoever else could use this CPU gets it. Nothing: somebody else has the post.
    fn linger(&self, channel: usize, mut post: Post) -> Option<Post> {
        let begun = Instant::now();
        let (until, busy) = (begun + self.linger, begun + PUT_OFF_FOR.min(self.linger));
        let mut is_first = true;
        loop {
            let mut ready = [PollFd::new(&self.channels[channel], PollFlags::IN)];
            // Anything but silence is for the read that follows.
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
            // It has been agreed on.
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
            // Whoever waits for a lock looks himself ([`Reply::is_wanted`]), so that he is not
            // given one that nobody wants.
            Operation::Setlk { waits: true, .. } => Duration::MAX,
            _ if is_content => content_patience,
            _ => signal_patience,
        };
        Patience { after_signal, at_exit: matches!(operation, Operation::Flush { .. }) }
    }

    /// A signal came to whoever waits for a request. The watch sees to the rest.
    fn interrupted(&self, early: Early) {
        match self.pending.interrupt(early) {
            Ok(request) if is_doomed(request.pid) => self.cut_short(early.target),
            Ok(_) => {}
            Err(oldest) => oldest.into_iter().for_each(|early| self.not_now(early)),
        }
    }

    /// No such request; if there is one after all, the kernel asks again.
    fn not_now(&self, early: Early) {
        let _ = self.write(early.channel, early.unique, Errno::AGAIN.raw_os_error(), &[]);
    }

    /// Gives an answer, unless there was one.
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
            // The kernel does not wait for it any more, or is gone.
            Err(Errno::NOENT | Errno::NODEV | Errno::PIPE) => Err(Undelivered),
            Err(_) => {
                // It did not like the answer (no memory, or a fault of ours), and still waits for
                // one.
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
        // Answers tell errors as negative numbers; notifications, which have no number, their code
        // as it is.
        write(&self.channels[channel], unique, error, parts)
    }

    /// Has the kernel drop all pages of a node, and waits until it has. Nothing: this process is to
    /// do so itself.
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

    /// Waits for the last reader, and ends what is left: operations under way have [`GRACE`] to
    /// come to an end.
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

/// One answer (`error`: 0, or the errno), or with `unique` 0 one notification (`error`: its code).
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

/// The device takes all or nothing.
fn retried(write: impl Fn() -> Result<usize, Errno>) -> Result<(), Errno> {
    loop {
        match write() {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
