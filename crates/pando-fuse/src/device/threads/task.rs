//! Tasks: futures of requests that may not be ready at once.
//!
//! The thread that read the request polls the future first, and a second time with a waker if it is
//! not ready. Later the holder of the task runner's post polls it. A waker only puts its task into
//! the queue.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The task is neither polled nor woken.
const IDLE: u8 = 0;
/// The task is in the queue.
const QUEUED: u8 = 1;
/// The task is being polled.
const RUNNING: u8 = 2;
/// The task is being polled, and was woken meanwhile.
const RUNNING_WOKEN: u8 = 3;

/// Tasks of one session.
#[derive(Default)]
pub(crate) struct Tasks {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Tasks that have been polled and are not done.
    waiting: Mutex<HashMap<usize, Arc<Task>>>,
}

#[derive(Default)]
struct Queue {
    woken: VecDeque<Arc<Task>>,
    is_closed: bool,
}

/// The future of one request.
pub(crate) struct Task {
    state: AtomicU8,
    work: Mutex<Option<Work>>,
    tasks: Arc<Tasks>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tasks {
    /// Polls a future on this thread. If it is not ready, it becomes a task.
    pub(crate) fn begin(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let mut work: Work = Box::pin(work);
        // Most futures are ready at once, and need no waker.
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let work = Mutex::new(Some(work));
        let task = Arc::new(Task { state: AtomicU8::new(RUNNING), work, tasks: Arc::clone(self) });
        if task.poll() {
            return;
        }
        lock(&self.waiting).insert(task.key(), Arc::clone(&task));
        task.rest();
    }

    /// Waits for the next woken task. Returns `None` once the tasks are closed.
    pub(crate) fn next(&self) -> Option<Arc<Task>> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(task) = queue.woken.pop_front() {
                return Some(task);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Number of tasks that are not done.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.waiting).len()
    }

    /// Ends the queue. Tasks that wait are dropped.
    pub(crate) fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.changed.notify_all();
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        for task in waiting.into_values() {
            // The map's lock is not held here: a future may run any code when it is dropped.
            drop(lock(&task.work).take());
        }
        lock(&self.queue).woken.clear();
    }

    fn push(&self, task: Arc<Task>) {
        lock(&self.queue).woken.push_back(task);
        self.changed.notify_one();
    }
}

impl Task {
    fn key(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Polls a task that was woken.
    pub(crate) fn run(self: Arc<Self>) {
        self.state.store(RUNNING, Ordering::SeqCst);
        if self.poll() {
            lock(&self.tasks.waiting).remove(&self.key());
        } else {
            self.rest();
        }
    }

    /// Polls the future. Returns whether it is done.
    fn poll(self: &Arc<Self>) -> bool {
        let waker = Waker::from(Arc::clone(self));
        let mut work = lock(&self.work);
        let Some(future) = work.as_mut() else { return true };
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => {
                *work = None;
                true
            }
            Poll::Pending => false,
        }
    }

    /// Ends a poll that left the task waiting. If the task was woken meanwhile, it goes to the
    /// queue.
    fn rest(self: Arc<Self>) {
        let order = Ordering::SeqCst;
        if self.state.compare_exchange(RUNNING, IDLE, order, order).is_err() {
            self.state.store(QUEUED, order);
            Arc::clone(&self.tasks).push(self);
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let order = Ordering::SeqCst;
        let next = |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(RUNNING_WOKEN),
            _ => None,
        };
        if self.state.fetch_update(order, order, next) == Ok(IDLE) {
            Arc::clone(&self.tasks).push(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_is_ready_is_done_by_the_thread_that_begins_it() {
        let tasks = Arc::new(Tasks::default());
        let here = std::thread::current().id();
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        tasks.begin(async move {
            assert_eq!(std::thread::current().id(), here);
            seen.store(true, Ordering::SeqCst);
        });
        assert!(done.load(Ordering::SeqCst));
        assert_eq!(tasks.waiting(), 0);
    }

    #[test]
    fn wakes_from_many_threads_are_neither_lost_nor_run_by_the_waker() {
        let tasks = Arc::new(Tasks::default());
        let runner = {
            let tasks = Arc::clone(&tasks);
            std::thread::spawn(move || {
                while let Some(task) = tasks.next() {
                    task.run();
                }
            })
        };
        let (done, wait) = channel();
        let polls = Arc::new(AtomicU64::new(0));
        for _ in 0..50 {
            let (done, polls, runner) = (done.clone(), Arc::clone(&polls), runner.thread().id());
            let mut left = 20;
            let mut work = Some(move || done.send(()).unwrap());
            tasks.begin(poll_fn(move |context| {
                polls.fetch_add(1, Ordering::SeqCst);
                // The thread that begins a task polls it twice.
                if left < 19 {
                    assert_eq!(std::thread::current().id(), runner);
                }
                left -= 1;
                if left == 0 {
                    work.take().unwrap()();
                    return Poll::Ready(());
                }
                let waker = context.waker().clone();
                std::thread::spawn(move || waker.wake());
                Poll::Pending
            }));
        }
        for _ in 0..50 {
            wait.recv().unwrap();
        }
        assert_eq!(polls.load(Ordering::SeqCst), 50 * 20);
        tasks.close();
        runner.join().unwrap();
        assert_eq!(tasks.waiting(), 0);
    }

    #[test]
    fn closing_drops_what_waits() {
        let tasks = Arc::new(Tasks::default());
        let (held, dropped) = channel::<()>();
        tasks.begin(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        assert_eq!(tasks.waiting(), 1);
        tasks.close();
        assert!(dropped.recv().is_err());
    }
}
