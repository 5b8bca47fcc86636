//! The beginning and the end of a session.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::device::counting::counted::{Counted, Measured, OPCODES};
use crate::device::counting::profile::Profiled;
use crate::device::dropper::{Afterwards, Dropper};
use crate::device::notify::Notifier;
use crate::device::pending::Pending;
use crate::device::rings::Rings;
use crate::device::session::{Config, Counts, FileSystem, Session};
use crate::device::threads::reader_pool::ReaderPool;
use crate::device::threads::watch::Watch;
use crate::protocol::abi;

/// How long a reader polls for the next request before it sleeps. It is worth a few wake-ups
/// (docs/BENCHMARKS-HISTORY.md).
const LINGER: Duration = Duration::from_micros(50);

/// How long the end of a session waits for pending requests.
const GRACE: Duration = Duration::from_secs(5);

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
    /// [`drop_pages`](crate::drop_pages()). If the mount `is_kept`, it outlives this process.
    /// `connection` is the minor number of its device.
    pub fn drop_pages_by(&self, program: Vec<OsString>, is_kept: bool, connection: u64) {
        let afterwards = match &self.session.rings {
            Some(_) => Afterwards::Abort(connection),
            None if is_kept => Afterwards::Leave,
            None => Afterwards::Fail,
        };
        let _ = self.session.dropper.set(Dropper::new(program, afterwards));
    }

    /// Whether requests come by rings of io_uring.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        self.session.rings().is_some()
    }

    /// A sender of notifications to the kernel.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        Notifier(Arc::downgrade(&self.session))
    }

    /// Number of requests read so far, for each kind that occurred, under the kernel's names. The
    /// second list is the file system's own counters, and how many requests are unanswered.
    #[must_use]
    pub fn counters(&self) -> (Counts, Counts) {
        let count = |code: u32| self.session.requests.get(code as usize);
        let of = |code| count(code).map_or(0, |count| count.load(Ordering::Relaxed));
        let requests = abi::opcode::NAMES.iter().map(|(code, name)| (*name, of(*code)));
        let mut own = self.session.fs.counters();
        own.push(("pending", self.session.pending.len() as u64));
        (requests.filter(|(_, count)| *count > 0).collect(), own)
    }

    /// What the session has measured so far.
    #[must_use]
    pub fn measured(&self) -> Measured {
        self.session.counted.measured()
    }

    /// Begins to count by caller, until [`Self::end_profile`] with the same number, for `limit` at
    /// most. One profile runs at a time: the error is the time that another one has left.
    pub fn begin_profile(&self, number: u64, limit: Duration) -> Result<(), Duration> {
        self.session.counted.profile.begin(number, limit)
    }

    /// Ends the profile of this number. `None`: there is none.
    #[must_use]
    pub fn end_profile(&self, number: u64) -> Option<Profiled> {
        self.session.counted.profile.end(number)
    }

    /// Waits until the session is over. Returns the error that ended reading, if there was one.
    pub fn join(self) -> io::Result<()> {
        drop(self.session);
        let panicked = |_| io::Error::other("the thread of a mount panicked");
        self.main.join().map_err(panicked)?
    }
}

/// Begins to serve, after [`shake_hands`](crate::device::shake_hands), by this process or by the
/// one that served before. Readers are spread over the
/// channels. There must be at least one channel.
pub fn start(
    channels: Vec<OwnedFd>,
    fs: Arc<dyn FileSystem>,
    config: Config,
) -> io::Result<Running> {
    start_with(channels, None, fs, config)
}

/// The same, with rings that the kernel has agreed to.
pub(crate) fn start_with(
    channels: Vec<OwnedFd>,
    rings: Option<Rings>,
    fs: Arc<dyn FileSystem>,
    config: Config,
) -> io::Result<Running> {
    let queues = rings.as_ref().map_or(0, |rings| rings.queues.len());
    let session = Arc::new(Session {
        reader_pool: ReaderPool::new(config.readers.max(1) + queues + 1),
        rings,
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
        counted: Counted::new(),
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
    /// Waits for the last reader, then ends the rest. Pending requests have [`GRACE`] to finish.
    fn see_to_the_end(&self, watch: JoinHandle<()>) -> io::Result<()> {
        self.reader_pool.await_close();
        let deadline = Instant::now() + GRACE;
        // The task runner stays until the tasks are closed.
        self.reader_pool.await_threads(1, deadline);
        while self.tasks.waiting() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.tasks.close();
        self.reader_pool.await_threads(0, deadline.max(Instant::now() + Duration::from_secs(1)));
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
