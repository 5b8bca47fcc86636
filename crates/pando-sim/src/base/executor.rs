//! Runs the clients' futures, in the order in which they were woken.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pando_client::BoxFuture;

/// Index of a task.
pub type TaskIndex = usize;

type Queue = Arc<Mutex<VecDeque<TaskIndex>>>;

/// All tasks of a run.
#[derive(Default)]
pub struct Executor {
    /// Each with its waker. It is the same at each poll, as it is of a real runtime: timers know
    /// by it that they have it already.
    tasks: Vec<Option<(BoxFuture<'static, ()>, Waker)>>,
    ready: Queue,
    /// Tasks that stand still.
    paused: BTreeSet<TaskIndex>,
    /// Paused tasks that were woken.
    woken: Vec<TaskIndex>,
}

struct Woken {
    task: TaskIndex,
    ready: Queue,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.task);
    }
}

impl Executor {
    /// Adds a task. The next [`Executor::run`] polls it.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + Send + 'static) -> TaskIndex {
        let task = self.tasks.len();
        let waker = Waker::from(Arc::new(Woken { task, ready: Arc::clone(&self.ready) }));
        self.tasks.push(Some((Box::pin(future), waker)));
        self.lock().push_back(task);
        task
    }

    /// Polls woken tasks until all tasks wait.
    pub fn run(&mut self) {
        loop {
            let Some(task) = self.lock().pop_front() else { return };
            if self.paused.contains(&task) {
                self.woken.push(task);
                continue;
            }
            let Some((future, waker)) = &mut self.tasks[task] else { continue };
            if let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                self.tasks[task] = None;
            }
        }
    }

    /// Pauses a task: wake-ups do not run it.
    pub fn pause(&mut self, task: TaskIndex) {
        self.paused.insert(task);
    }

    /// Resumes a paused task, which keeps its wake-ups.
    pub fn resume(&mut self, task: TaskIndex) {
        self.paused.remove(&task);
        let (now, later) = std::mem::take(&mut self.woken).into_iter().partition(|t| *t == task);
        self.woken = later;
        let now: Vec<TaskIndex> = now;
        self.lock().extend(now);
    }

    /// Drops a task at any point, because its client died.
    pub fn kill(&mut self, task: TaskIndex) {
        self.tasks[task] = None;
    }

    /// Whether the task has ended or was killed.
    #[must_use]
    pub fn is_over(&self, task: TaskIndex) -> bool {
        self.tasks[task].is_none()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<TaskIndex>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
