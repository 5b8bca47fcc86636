//! Threads for requests that take long. They are started when there is work that no idle one can take, up to a limit.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most threads.
const THREADS_MAX: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// The threads, and what waits for them.
#[derive(Default)]
pub(super) struct Aside {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// A job came, a thread became idle or ended, or it is over.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

impl Aside {
    /// Has `job` done by one of the threads; here, if there can be none.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.lock();
        queue.jobs.push_back(Box::new(job));
        if queue.jobs.len() > queue.idle && queue.threads < THREADS_MAX {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("pando-aside".to_owned());
            if thread.spawn(move || shared.work()).is_ok() {
                queue.threads += 1;
            } else if queue.threads == 0
                && let Some(job) = queue.jobs.pop_back()
            {
                drop(queue);
                return job();
            }
        }
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Waits until all is done, and ends the threads.
    pub(super) fn finish(&self) {
        let mut queue = self.shared.lock();
        queue.is_over = true;
        self.shared.changed.notify_all();
        while queue.threads > 0 {
            queue = self.shared.wait(queue);
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.lock();
            } else if queue.is_over {
                break;
            } else {
                queue.idle += 1;
                queue = self.wait(queue);
                queue.idle -= 1;
            }
        }
        queue.threads -= 1;
        drop(queue);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn all_is_done_by_the_end() {
        let aside = Aside::default();
        let sum = Arc::new(AtomicU64::new(0));
        for number in 0..1000 {
            let sum = Arc::clone(&sum);
            aside.run(move || {
                sum.fetch_add(number, Ordering::Relaxed);
            });
        }
        aside.finish();
        assert_eq!(sum.load(Ordering::Relaxed), 499_500);
    }

    #[test]
    fn one_that_waits_holds_up_no_other() {
        let aside = Aside::default();
        let (sender, receiver) = channel();
        aside.run(move || receiver.recv().unwrap());
        let (done, wait) = channel();
        aside.run(move || done.send(()).unwrap());
        wait.recv().unwrap();
        sender.send(()).unwrap();
    }
}
