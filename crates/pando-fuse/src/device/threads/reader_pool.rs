//! The reader pool: the threads of a session, and the posts that they hold.
//!
//! A *post* is a duty that at most one thread has at a time. There is one post for reading each
//! channel, one for each queue of a ring, and one for running woken tasks. The thread that reads a
//! request also handles it. A wake-up on another CPU costs more than most requests do. If the work
//! takes long, another thread gets the post:
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

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Idle threads kept for later use.
const SPARES: usize = 1;

/// Work that any thread can do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads and posts of one session.
pub(crate) struct ReaderPool {
    stamps: Box<[Stamp]>,
    floor: Mutex<Floor>,
    /// Nothing more is read; a thread without work ends. It is set while `floor` is locked, so that
    /// who waits there hears of it.
    is_over: AtomicBool,
    /// Signals that a post is open, that a job came, or that the session is over.
    pub(crate) changed: Condvar,
    /// Signals that a thread has ended, or that the session is over.
    pub(crate) left: Condvar,
}

/// The stamp of a post, on cache lines of its own.
#[repr(align(128))]
struct Stamp(AtomicU64);

#[derive(Default)]
pub(crate) struct Floor {
    pub(crate) open: Vec<Post>,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) threads: usize,
    pub(crate) idle: usize,
}

/// The right to hold a post, valid while the post has this stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Post {
    pub(crate) role: usize,
    pub(crate) stamp: u64,
}

pub(crate) enum Work {
    Post(Post),
    Job(Job),
}

thread_local! {
    /// The post that this thread holds while it works.
    pub(crate) static POST: Cell<Option<Post>> = const { Cell::new(None) };
    /// Whether the kernel has this thread write requests to a ring. It then stays to the end.
    pub(crate) static IS_BOUND: Cell<bool> = const { Cell::new(false) };
}

impl ReaderPool {
    /// Makes `roles` posts, all of them open.
    pub(crate) fn new(roles: usize) -> Self {
        let open = (0..roles).map(|role| Post { role, stamp: 0 }).collect();
        Self {
            stamps: (0..roles).map(|_| Stamp(AtomicU64::new(0))).collect(),
            floor: Mutex::new(Floor { open, ..Floor::default() }),
            is_over: AtomicBool::new(false),
            changed: Condvar::new(),
            left: Condvar::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current stamps of all posts.
    pub(crate) fn stamps(&self) -> impl Iterator<Item = u64> {
        self.stamps.iter().map(|stamp| stamp.0.load(Ordering::SeqCst))
    }

    /// Marks that the holder begins to work.
    pub(crate) fn begin(&self, post: Post) {
        let stamp = post.stamp + 1;
        self.stamps[post.role].0.swap(stamp, Ordering::SeqCst);
        POST.set(Some(Post { stamp, ..post }));
    }

    /// Marks that the work is done. Returns `None` if another thread has the post.
    pub(crate) fn end(&self) -> Option<Post> {
        self.leave(POST.take()?)
    }

    /// Whether this thread still holds the post that it works at.
    pub(crate) fn is_held_here(&self) -> bool {
        let is_held = |post: Post| self.stamps[post.role].0.load(Ordering::SeqCst) == post.stamp;
        POST.get().is_some_and(is_held)
    }

    /// Makes an odd stamp even. Returns `None` if another thread did so first.
    pub(crate) fn leave(&self, post: Post) -> Option<Post> {
        let (order, next) = (Ordering::SeqCst, post.stamp + 1);
        let stamp = &self.stamps[post.role].0;
        stamp.compare_exchange(post.stamp, next, order, order).ok()?;
        Some(Post { stamp: next, ..post })
    }

    /// Waits for the next work of an idle thread. Returns `None` if the thread should end.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut floor = self.lock();
        loop {
            if let Some(post) = floor.open.pop() {
                return Some(Work::Post(post));
            }
            if let Some(job) = floor.jobs.pop_front() {
                return Some(Work::Job(job));
            }
            if self.is_over() || (floor.idle >= SPARES && !IS_BOUND.get()) {
                return None;
            }
            floor.idle += 1;
            floor = self.changed.wait(floor).unwrap_or_else(PoisonError::into_inner);
            floor.idle -= 1;
        }
    }

    /// Ends reading for good.
    pub(crate) fn close(&self) {
        let floor = self.lock();
        self.is_over.store(true, Ordering::SeqCst);
        drop(floor);
        self.changed.notify_all();
        self.left.notify_all();
    }

    /// Whether reading has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Waits until reading has ended.
    pub(crate) fn await_close(&self) {
        let mut floor = self.lock();
        while !self.is_over() {
            floor = self.left.wait(floor).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `threads` threads or fewer are left, or until `deadline`.
    pub(crate) fn await_threads(&self, threads: usize, deadline: Instant) {
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
