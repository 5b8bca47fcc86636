//! Work of another mount, over and over, while something is measured.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::failure::Failure;

/// Measures while `other` runs over and over in another thread. Ends with the measured work, once
/// the last run of `other` is over, which must have run.
pub fn meanwhile<T>(
    measured: impl FnOnce() -> Result<T, Failure>,
    other: impl Fn() -> Result<(), Failure> + Sync,
) -> Result<T, Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let repeat = || {
            loop {
                other()?;
                if is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        };
        let others = scope.spawn(repeat);
        let result = measured();
        is_over.store(true, Ordering::Relaxed);
        let repeated = others.join();
        repeated.unwrap_or_else(|_| Err(Failure::plain("the other mount's work panicked")))?;
        result
    })
}
