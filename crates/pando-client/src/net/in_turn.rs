//! Runs futures one after the other, as long as each ends soon.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

/// After this time all the other futures begin at once. So many silent servers cost no more time
/// than one.
const PATIENCE: Duration = Duration::from_millis(250);

/// Runs futures until `is_found` accepts an output, or all have ended. It finds that output even if
/// other futures never end.
pub(super) async fn in_turn<F: Future>(
    futures: impl IntoIterator<Item = F>,
    mut is_found: impl FnMut(F::Output) -> bool,
) {
    let mut futures: Vec<Option<Pin<Box<F>>>> =
        futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let (all, mut begun) = (futures.len(), 1);
    let mut patience = Box::pin(sleep(PATIENCE));
    poll_fn(|context| {
        loop {
            let mut has_one_ended = false;
            for place in futures.iter_mut().take(begun) {
                if let Some(future) = place
                    && let Poll::Ready(output) = future.as_mut().poll(context)
                {
                    (*place, has_one_ended) = (None, true);
                    if is_found(output) {
                        return Poll::Ready(());
                    }
                }
            }
            if futures.iter().all(Option::is_none) {
                return Poll::Ready(());
            }
            if begun < all && patience.as_mut().poll(context).is_ready() {
                begun = all;
            } else if begun < all && has_one_ended {
                begun += 1;
            } else {
                return Poll::Pending;
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::*;

    fn run(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(future);
    }

    #[test]
    fn none_is_asked_after_the_one_that_was_found() {
        let asked = Cell::new(0);
        let ask = |output| {
            let asked = &asked;
            async move {
                asked.set(asked.get() + 1);
                output
            }
        };
        run(in_turn([1, 2, 3, 4].map(ask), |output| output == 2));
        assert_eq!(asked.get(), 2);
        run(in_turn([ready(1)], |_| false));
        run(in_turn(Vec::<std::future::Ready<u8>>::new(), |_| false));
    }

    #[test]
    fn silent_futures_hold_up_no_other() {
        let found = Cell::new(false);
        let futures = (0..100).map(|number| async move {
            if number < 99 {
                pending::<()>().await;
            }
            number
        });
        run(in_turn(futures, |number| {
            found.set(number == 99);
            found.get()
        }));
        assert!(found.get());
    }
}
