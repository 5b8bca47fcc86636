//! Mutexes that a panic does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also if a panic has poisoned it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
