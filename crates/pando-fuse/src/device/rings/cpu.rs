//! Threads that stay on one CPU. What such a thread starts inherits that, and has to leave it.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the process may use, noted before any thread stays on one of them.
static ALL: OnceLock<Option<CpuSet>> = OnceLock::new();

/// Notes the CPUs that the process may use.
pub(super) fn note_all() {
    ALL.get_or_init(|| sched_getaffinity(None).ok());
}

/// Has this thread stay on a CPU, if the process may use it.
pub(crate) fn stay_on(number: usize) {
    let Some(Some(all)) = ALL.get() else { return };
    if number < CpuSet::MAX_CPU && all.is_set(number) {
        let mut only = CpuSet::new();
        only.set(number);
        // A CPU that is switched off has no callers.
        let _ = sched_setaffinity(None, &only);
    }
}

/// Lets this thread use all CPUs of the process again.
pub(crate) fn leave() {
    if let Some(Some(all)) = ALL.get() {
        let _ = sched_setaffinity(None, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bound_thread_starts_can_leave() {
        note_all();
        let all = sched_getaffinity(None).unwrap();
        let number = (0..CpuSet::MAX_CPU).find(|&number| all.is_set(number)).unwrap();
        let bound = move || {
            stay_on(number);
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
            std::thread::spawn(|| {
                leave();
                sched_getaffinity(None).unwrap()
            })
            .join()
            .unwrap()
        };
        assert_eq!(std::thread::spawn(bound).join().unwrap().count(), all.count());
    }
}
