//! Who does what: threads, and the posts they hold.
//!
//! A *post* is a thing that at most one thread does at a time: reading one channel of the device,
//! or going on with tasks that were woken. Whoever reads a request also handles it, since a wake-up
//! on another CPU costs more than most requests do. If that takes long, another thread gets the
//! post:
//!
//! ```text
//! reader ── knows that it will wait (fsync, an object to store): steps aside ─┐
//!        └─ waits and did not know (a lock, a slow log): the watch relieves it ┴─► a spare thread reads on
//! ```
//!
//! The one who was relieved finishes its request, answers it itself, and becomes a spare.
//!
//! A post's stamp is even while its holder waits for the kernel (or a task), odd while it works on
//! something. Only the holder makes it odd; who makes an odd one even again decides what becomes of
//! the post.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::session::Session;

/// Threads beyond which work that waits is queued instead of getting one of its own.
const THREADS_MAX: usize = 128;
/// Threads beyond which nobody is relieved: all of them wait for something that ends, and reading
/// goes on then. Each needs a request under way, so that a user with many processes could have any
/// number of them.
const THREADS_EVER: usize = 512;
/// Threads kept for the next time that one is needed.
const SPARES: usize = 1;

/// Work for any thread.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads and posts of one session.
pub(super) struct Crew {
    stamps: Box<[Stamp]>,
    floor: Mutex<Floor>,
    /// A post is open, a job came, or it is over.
    changed: Condvar,
    /// A thread went home, or it is over.
    left: Condvar,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Stamp(AtomicU64);

#[derive(Default)]
struct Floor {
    open: Vec<Post>,
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Nothing more is read; who has nothing to do goes home.
    is_over: bool,
}

/// The right to do something, as of a stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Post {
    pub(super) role: usize,
    stamp: u64,
}

enum Work {
    Post(Post),
    Job(Job),
}

thread_local! {
    /// The post this thread holds while it works on something.
    static POST: Cell<Option<Post>> = const { Cell::new(None) };
    /// The session whose requests this thread answers.
    static CREW_OF: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// Whether the calling thread answers requests.
pub(super) fn is_crew() -> bool {
    CREW_OF.with_borrow(Option::is_some)
}

/// To be called before the calling thread waits for long: if it is one that answers requests,
/// another one reads them from then on. False if there is none to spare.
pub fn step_aside() -> bool {
    CREW_OF.with_borrow(|session| session.as_ref().is_none_or(Session::step_aside))
}

impl Crew {
    /// Posts for so many roles, all of them open.
    pub(super) fn new(roles: usize) -> Self {
        let open = (0..roles).map(|role| Post { role, stamp: 0 }).collect();
        Self {
            stamps: (0..roles).map(|_| Stamp(AtomicU64::new(0))).collect(),
            floor: Mutex::new(Floor { open, ..Floor::default() }),
            changed: Condvar::new(),
            left: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stamps of all posts.
    pub(super) fn stamps(&self) -> impl Iterator<Item = u64> {
        self.stamps.iter().map(|stamp| stamp.0.load(Ordering::SeqCst))
    }

    /// The holder begins to work on something.
    pub(super) fn begin(&self, post: Post) {
        let stamp = post.stamp + 1;
        self.stamps[post.role].0.swap(stamp, Ordering::SeqCst);
        POST.set(Some(Post { stamp, ..post }));
    }

    /// It is done. Nothing: somebody else has the post.
    pub(super) fn end(&self) -> Option<Post> {
        self.leave(POST.take()?)
    }

    /// Makes an odd stamp even, unless somebody else did.
    fn leave(&self, post: Post) -> Option<Post> {
        let (order, next) = (Ordering::SeqCst, post.stamp + 1);
        let stamp = &self.stamps[post.role].0;
        stamp.compare_exchange(post.stamp, next, order, order).ok()?;
        Some(Post { stamp: next, ..post })
    }

    /// What an idle thread does next. Nothing: it goes home.
    fn next(&self) -> Option<Work> {
        let mut floor = self.lock();
        loop {
            if let Some(post) = floor.open.pop() {
                return Some(Work::Post(post));
            }
            if let Some(job) = floor.jobs.pop_front() {
                return Some(Work::Job(job));
            }
            if floor.is_over || floor.idle >= SPARES {
                return None;
            }
            floor.idle += 1;
            floor = self.changed.wait(floor).unwrap_or_else(PoisonError::into_inner);
            floor.idle -= 1;
        }
    }

    /// Nothing more will be read.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
        self.left.notify_all();
    }

    /// Waits until nothing more will be read.
    pub(super) fn await_close(&self) {
        let mut floor = self.lock();
        while !floor.is_over {
            floor = self.left.wait(floor).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `threads` threads or fewer are left, or until `deadline`.
    pub(super) fn await_threads(&self, threads: usize, deadline: Instant) {
        let mut floor = self.lock();
        while floor.threads > threads {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let wait = self.left.wait_timeout(floor, left);
            floor = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Session {
    /// Threads for all open posts.
    pub(super) fn staff(self: &Arc<Self>) -> std::io::Result<()> {
        let mut floor = self.crew.lock();
        for _ in 0..floor.open.len() {
            self.hire(&mut floor)?;
        }
        Ok(())
    }

    /// Before a wait: somebody else gets this thread's post. False, and nothing changes, if there
    /// is nobody: the work is then to be queued.
    pub(super) fn step_aside(self: &Arc<Self>) -> bool {
        let Some(post) = POST.get() else { return true };
        let mut floor = self.crew.lock();
        let is_spare = floor.idle > floor.open.len() + floor.jobs.len();
        if !is_spare && (floor.threads >= THREADS_MAX || self.hire(&mut floor).is_err()) {
            return false;
        }
        POST.set(None);
        if let Some(post) = self.crew.leave(post) {
            floor.open.push(post);
        }
        drop(floor);
        self.crew.changed.notify_one();
        true
    }

    /// Has `job` done by a thread that holds no post, when there is one.
    pub(super) fn queue(self: &Arc<Self>, job: Job) {
        let mut floor = self.crew.lock();
        floor.jobs.push_back(job);
        let wanted = floor.open.len() + floor.jobs.len();
        if floor.idle < wanted && floor.threads < THREADS_MAX {
            // Without a new one, the next that comes free does it.
            let _ = self.hire(&mut floor);
        }
        drop(floor);
        self.crew.changed.notify_one();
    }

    /// Gives the post of somebody who has worked since `stamp` on one thing to another thread.
    pub(super) fn relieve(self: &Arc<Self>, role: usize, stamp: u64) {
        let mut floor = self.crew.lock();
        let is_spare = floor.idle > floor.open.len() + floor.jobs.len();
        // Beyond the first limit, too: somebody should read what would end the waiting of all
        // others.
        if !is_spare && (floor.threads >= THREADS_EVER || self.hire(&mut floor).is_err()) {
            return;
        }
        if let Some(post) = self.crew.leave(Post { role, stamp }) {
            floor.open.push(post);
        }
        drop(floor);
        self.crew.changed.notify_one();
    }

    fn hire(self: &Arc<Self>, floor: &mut Floor) -> std::io::Result<()> {
        let session = Arc::clone(self);
        let thread = std::thread::Builder::new().name("pando-fuse".to_owned());
        thread.spawn(move || session.work())?;
        floor.threads += 1;
        Ok(())
    }

    fn work(self: Arc<Self>) {
        /// Also when the thread panics.
        struct Leaving<'a>(&'a Crew);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                self.0.lock().threads -= 1;
                self.0.left.notify_all();
            }
        }
        let _leaving = Leaving(&self.crew);
        CREW_OF.set(Some(Arc::clone(&self)));
        self.fs.thread_begins();
        let mut buffer = Vec::new();
        while let Some(work) = self.crew.next() {
            match work {
                Work::Post(post) => self.hold(post, &mut buffer),
                Work::Job(job) => job(),
            }
        }
    }
}
