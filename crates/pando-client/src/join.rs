//! Waiting for several futures at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Most futures that run at once. Each wake-up polls all of them that are pending.
const WIDTH: usize = 128;

/// All outputs, in the order of the futures.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting = futures.into_iter();
    let mut outputs = Vec::new();
    loop {
        let mut batch: Vec<Part<F>> =
            waiting.by_ref().take(WIDTH).map(|future| Part::Running(Box::pin(future))).collect();
        if batch.is_empty() {
            return outputs;
        }
        poll_fn(|context| {
            let mut all = true;
            for part in &mut batch {
                if let Part::Running(future) = part {
                    match future.as_mut().poll(context) {
                        Poll::Ready(output) => *part = Part::Ready(output),
                        Poll::Pending => all = false,
                    }
                }
            }
            if all { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        outputs.extend(batch.into_iter().filter_map(|part| match part {
            Part::Ready(output) => Some(output),
            Part::Running(_) => None,
        }));
    }
}

enum Part<F: Future> {
    Running(Pin<Box<F>>),
    Ready(F::Output),
}

// A running future is pinned in its box, and an output is never pinned.
impl<F: Future> Unpin for Part<F> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn outputs_come_in_order_beyond_one_batch() {
        let futures = (0..1000_usize).map(|n| {
            let mut left = n % 3;
            poll_fn(move |context| {
                if left == 0 {
                    return Poll::Ready(n);
                }
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            })
        });
        assert_eq!(block_on(join_all(futures)), (0..1000).collect::<Vec<_>>());
    }
}
