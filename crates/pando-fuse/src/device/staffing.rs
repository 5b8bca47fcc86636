//! How threads of the reader pool are started, step aside, and are relieved.

use std::cell::RefCell;
use std::sync::Arc;

use crate::device::rings::cpu;
use crate::device::session::Session;
use crate::device::threads::reader_pool::{Floor, Job, POST, Post, ReaderPool, Work};

/// With this many threads, work that will wait is queued. It gets no thread of its own.
const THREADS_MAX: usize = 128;

/// With this many threads, no thread is relieved. All of them wait for something that ends, and
/// reading goes on then. Each such thread needs a pending request. Without a bound, a user with
/// many processes could cause any number of threads.
const THREADS_EVER: usize = 512;

thread_local! {
    /// The session that this thread answers requests for.
    static READS_FOR: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// Whether the calling thread is in the reader pool of a session.
pub(crate) fn is_in_reader_pool() -> bool {
    READS_FOR.with_borrow(Option::is_some)
}

/// Gives the calling thread's post to another thread. A thread of a reader pool calls this before
/// it waits for long. Returns false if no thread can be spared.
pub fn step_aside() -> bool {
    READS_FOR.with_borrow(|session| session.as_ref().is_none_or(Session::step_aside))
}

impl Session {
    /// Starts one thread for each open post.
    pub(crate) fn staff(self: &Arc<Self>) -> std::io::Result<()> {
        let mut floor = self.reader_pool.lock();
        for _ in 0..floor.open.len() {
            self.hire(&mut floor)?;
        }
        Ok(())
    }

    /// Gives this thread's post to another thread, before a wait. Returns false and changes nothing
    /// if there is no other thread. The caller then has to queue the work.
    pub(crate) fn step_aside(self: &Arc<Self>) -> bool {
        let Some(post) = POST.get() else { return true };
        let mut floor = self.reader_pool.lock();
        let is_spare = floor.idle > floor.open.len() + floor.jobs.len();
        if !is_spare && (floor.threads >= THREADS_MAX || self.hire(&mut floor).is_err()) {
            return false;
        }
        POST.set(None);
        if let Some(post) = self.reader_pool.leave(post) {
            floor.open.push(post);
        }
        drop(floor);
        self.reader_pool.changed.notify_one();
        true
    }

    /// Queues `job` for a thread that holds no post.
    pub(crate) fn queue(self: &Arc<Self>, job: Job) {
        let mut floor = self.reader_pool.lock();
        floor.jobs.push_back(job);
        let wanted = floor.open.len() + floor.jobs.len();
        if floor.idle < wanted && floor.threads < THREADS_MAX {
            // If no thread can be started, the next idle one does the job.
            let _ = self.hire(&mut floor);
        }
        drop(floor);
        self.reader_pool.changed.notify_one();
    }

    /// Takes the post from a thread that has worked on one request since `stamp`, and gives it to
    /// another thread.
    pub(crate) fn relieve(self: &Arc<Self>, role: usize, stamp: u64) {
        let mut floor = self.reader_pool.lock();
        let is_spare = floor.idle > floor.open.len() + floor.jobs.len();
        // More than `THREADS_MAX` threads are allowed here. One thread must go on reading. The
        // request that it reads may end the waiting of all others.
        if !is_spare && (floor.threads >= THREADS_EVER || self.hire(&mut floor).is_err()) {
            return;
        }
        if let Some(post) = self.reader_pool.leave(Post { role, stamp }) {
            floor.open.push(post);
        }
        drop(floor);
        self.reader_pool.changed.notify_one();
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
        struct Leaving<'a>(&'a ReaderPool);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                self.0.lock().threads -= 1;
                self.0.left.notify_all();
            }
        }
        let _leaving = Leaving(&self.reader_pool);
        // The thread that started this one may be on one CPU alone.
        cpu::leave();
        READS_FOR.set(Some(Arc::clone(&self)));
        self.fs.thread_begins();
        let mut buffer = Vec::new();
        while let Some(work) = self.reader_pool.next() {
            match work {
                Work::Post(post) => self.hold(post, &mut buffer),
                Work::Job(job) => job(),
            }
        }
    }
}
