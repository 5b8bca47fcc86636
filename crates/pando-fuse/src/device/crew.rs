//! The reader pool: the threads of a session, and the posts that they hold.
//!
//! A *post* is a duty that at most one thread has at a time. There is one post for reading each
//! channel, and one for running woken tasks. The thread that reads a request also handles it. A
//! wake-up on another CPU costs more than most requests do. If the work takes long, another thread
//! gets the post:
//!
//! ```text
//! reader ── knows that it will wait (fsync, an object to store): steps aside ─────────┐
//!        └─ waits and did not know (a lock, a slow log): the watch relieves it ───────┴─► a spare thread reads on
//! ```
//!
//! A relieved thread finishes its request, answers it itself, and becomes a spare.
//!
//! Invariants of a post's stamp:
//! 1. It is even while the holder waits for the kernel or for a task, and odd while the holder
//!    works.
//! 2. Only the holder makes it odd.
//! 3. The thread that makes an odd stamp even decides what becomes of the post.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::session::Session;

/// With this many threads, work that will wait is queued. It gets no thread of its own.
const THREADS_MAX: usize = 128;
/// With this many threads, no thread is relieved. All of them wait for something that ends, and
/// reading goes on then. Each such thread needs a pending request. Without a bound, a user with
/// many processes could cause any number of threads.
const THREADS_EVER: usize = 512;
/// Idle threads kept for later use.
const SPARES: usize = 1;

/// Work that any thread can do.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads and posts of one session.
pub(super) struct Crew {
    stamps: Box<[Stamp]>,
    floor: Mutex<Floor>,
    /// Signals that a post is open, that a job came, or that the session is over.
    changed: Condvar,
    /// Signals that a thread has ended, or that the session is over.
    left: Condvar,
}

/// The stamp of a post, on cache lines of its own.
#[repr(align(128))]
struct Stamp(AtomicU64);

#[derive(Default)]
struct Floor {
    open: Vec<Post>,
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Nothing more is read; a thread without work ends.
    is_over: bool,
}

/// The right to hold a post, valid while the post has this stamp.
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
    /// The post that this thread holds while it works.
    static POST: Cell<Option<Post>> = const { Cell::new(None) };
    /// The session that this thread answers requests for.
    static CREW_OF: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// Whether the calling thread is in the reader pool of a session.
pub(super) fn is_crew() -> bool {
    CREW_OF.with_borrow(Option::is_some)
}

/// Gives the calling thread's post to another thread. A thread of a reader pool calls this before
/// it waits for long. Returns false if no thread can be spared.
pub fn step_aside() -> bool {
    CREW_OF.with_borrow(|session| session.as_ref().is_none_or(Session::step_aside))
}

impl Crew {
    /// Makes `roles` posts, all of them open.
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

    /// Current stamps of all posts.
    pub(super) fn stamps(&self) -> impl Iterator<Item = u64> {
        self.stamps.iter().map(|stamp| stamp.0.load(Ordering::SeqCst))
    }

    /// Marks that the holder begins to work.
    pub(super) fn begin(&self, post: Post) {
        let stamp = post.stamp + 1;
        self.stamps[post.role].0.swap(stamp, Ordering::SeqCst);
        POST.set(Some(Post { stamp, ..post }));
    }

    /// Marks that the work is done. Returns `None` if another thread has the post.
    pub(super) fn end(&self) -> Option<Post> {
        self.leave(POST.take()?)
    }

    /// Makes an odd stamp even. Returns `None` if another thread did so first.
    fn leave(&self, post: Post) -> Option<Post> {
        let (order, next) = (Ordering::SeqCst, post.stamp + 1);
        let stamp = &self.stamps[post.role].0;
        stamp.compare_exchange(post.stamp, next, order, order).ok()?;
        Some(Post { stamp: next, ..post })
    }

    /// Waits for the next work of an idle thread. Returns `None` if the thread should end.
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

    /// Ends reading for good.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
        self.left.notify_all();
    }

    /// Waits until reading has ended.
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
    /// Starts one thread for each open post.
    pub(super) fn staff(self: &Arc<Self>) -> std::io::Result<()> {
        let mut floor = self.crew.lock();
        for _ in 0..floor.open.len() {
            self.hire(&mut floor)?;
        }
        Ok(())
    }

    /// Gives this thread's post to another thread, before a wait. Returns false and changes nothing
    /// if there is no other thread. The caller then has to queue the work.
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

    /// Queues `job` for a thread that holds no post.
    pub(super) fn queue(self: &Arc<Self>, job: Job) {
        let mut floor = self.crew.lock();
        floor.jobs.push_back(job);
        let wanted = floor.open.len() + floor.jobs.len();
        if floor.idle < wanted && floor.threads < THREADS_MAX {
            // If no thread can be started, the next idle one does the job.
            let _ = self.hire(&mut floor);
        }
        drop(floor);
        self.crew.changed.notify_one();
    }

    /// Takes the post from a thread that has worked on one request since `stamp`, and gives it to
    /// another thread.
    pub(super) fn relieve(self: &Arc<Self>, role: usize, stamp: u64) {
        let mut floor = self.crew.lock();
        let is_spare = floor.idle > floor.open.len() + floor.jobs.len();
        // More than `THREADS_MAX` threads are allowed here. One thread must go on reading. The
        // request that it reads may end the waiting of all others.
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
        /// Counts the thread out at its end, also after a panic.
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
