//! A host reads its index files by the clock that the test gives, and tells damage.

use babu::Disk as _;

use super::full::{ask, start_timed};
use super::*;

const DAY: u64 = 86_400_000_000_000;

/// Clocks that a test sets.
#[derive(Default)]
struct Told {
    mono: std::sync::atomic::AtomicU64,
}

impl crate::common::clock::Time for Told {
    fn mono(&self) -> u64 {
        self.mono.load(Ordering::SeqCst)
    }

    fn wall(&self) -> u64 {
        self.mono() + 1_000 * DAY
    }
}

#[test]
fn a_pass_takes_a_period_of_the_clock_and_damage_is_told_once() {
    let clock = Arc::new(Told::default());
    clock.mono.store(DAY, Ordering::SeqCst);
    let machine = || Toy { shard: ONE, asking: HashMap::new(), threads: Box::leak(Box::default()) };
    // Without a thread of the host's own, which would take steps of this one.
    let (host, disk) = start_timed(machine, clock.clone(), Duration::ZERO);
    for sequence in 0..200 {
        assert_eq!(ask(&host, sequence, Op::StatFs(ONE)), Ok(Body::Done));
    }
    let cell = host.shared.cell(ONE).unwrap();
    let job = cell.lock().store.begin_checkpoint().unwrap().unwrap();
    let done = job.run().unwrap();
    cell.lock().store.install(done).remove().unwrap();
    let files = disk.files();
    let name = files.keys().find(|name| name.starts_with("idx-")).unwrap();
    disk.open(name).unwrap().write_at(60, b"damage").unwrap();
    let days = |count: u64| {
        for _ in 0..count {
            clock.mono.fetch_add(DAY, Ordering::SeqCst);
            host.shared.scrub_round(10 * DAY);
        }
        let status = host.status().swap_remove(0);
        (status.unreadable.len(), status.counters["scrub_damaged"], status.scrub.unwrap())
    };
    let (known, told, scrub) = days(1);
    assert_eq!((known, told, scrub.ended), (0, 0, 0));
    let (known, told, scrub) = days(10);
    assert_eq!((known, told, scrub.damaged), (1, 1, 1));
    assert_eq!(scrub.ended, 1_012 * 86_400);
    assert!(host.status()[0].unreadable[0].contains(&name[..]));
    let (known, told, scrub) = days(10);
    assert_eq!((known, told, scrub.damaged), (1, 1, 1));
    assert_eq!(scrub.ended, 1_022 * 86_400);
    assert_eq!(host.figures()[0].scrub, scrub);
}
