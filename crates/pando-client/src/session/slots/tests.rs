use super::*;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use crate::block_on;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(future: Pin<&mut Acquire<'_>>, count: &Arc<Count>) -> Poll<Result<Slot, Closed>> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

#[test]
fn a_slot_never_uses_a_sequence_twice_nor_serves_two_at_once() {
    let slots = Slots::new(8);
    let seen = Mutex::new(HashMap::<u16, (u64, bool)>::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let held: Vec<_> =
                        (0..2).map(|_| block_on(slots.acquire()).expect("usable")).collect();
                    for slot in &held {
                        let mut seen = seen.lock();
                        let (last, busy) = seen.entry(slot.index).or_default();
                        assert!(slot.sequence > *last && !*busy);
                        (*last, *busy) = (slot.sequence, true);
                    }
                    for slot in held {
                        seen.lock().get_mut(&slot.index).expect("seen").1 = false;
                        slots.free(slot);
                    }
                }
            });
        }
    });
    assert_eq!(slots.state.lock().free.len(), 8);
}

#[test]
fn a_waiting_request_is_woken_by_an_answer() {
    let slots = Slots::new(1);
    let count = Arc::new(Count::default());
    let first = block_on(slots.acquire()).expect("free");
    let mut waits = pin!(slots.acquire());
    assert!(poll(waits.as_mut(), &count).is_pending());
    slots.free(first);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    let Poll::Ready(Ok(second)) = poll(waits, &count) else { panic!("a slot is free") };
    assert_eq!((second.index, second.sequence), (0, 2));
}

#[test]
fn a_wake_up_that_no_request_takes_is_passed_on() {
    let slots = Slots::new(1);
    let (a, b) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let first = block_on(slots.acquire()).expect("free");
    let mut one = Box::pin(slots.acquire());
    let mut two = Box::pin(slots.acquire());
    assert!(poll(one.as_mut(), &a).is_pending());
    assert!(poll(two.as_mut(), &b).is_pending());
    slots.free(first);
    drop(one);
    assert_eq!(b.0.load(Ordering::SeqCst), 1);
    assert!(poll(two.as_mut(), &b).is_ready());
}

#[test]
fn a_waiting_request_hears_that_the_session_is_over() {
    let slots = Slots::new(1);
    let count = Arc::new(Count::default());
    let held = block_on(slots.acquire()).expect("free");
    let mut waits = pin!(slots.acquire());
    assert!(poll(waits.as_mut(), &count).is_pending());
    slots.close();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(poll(waits, &count), Poll::Ready(Err(Closed)));
    slots.free(held);
    assert_eq!(block_on(slots.acquire()), Err(Closed));
}
