//! A cache of checked blocks and checksums of objects, within a budget of bytes. Objects never
//! change, so nothing here is ever stale. It evicts the oldest block that was not used since it was
//! last considered ("second chance").

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// A cache of immutable values.
pub struct Cache<K, V> {
    inner: Mutex<Inner<K, V>>,
    budget: usize,
}

struct Inner<K, V> {
    entries: HashMap<K, Entry<V>>,
    queue: VecDeque<K>,
    bytes: usize,
}

struct Entry<V> {
    value: Arc<V>,
    size: usize,
    used: bool,
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    /// An empty cache of at most `budget` bytes.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        let inner = Inner { entries: HashMap::new(), queue: VecDeque::new(), bytes: 0 };
        Self { inner: Mutex::new(inner), budget }
    }

    /// The value, if it is cached.
    pub fn get(&self, key: K) -> Option<Arc<V>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.entries.get_mut(&key)?;
        entry.used = true;
        Some(Arc::clone(&entry.value))
    }

    /// Keeps `value`, which takes `size` bytes, unless it alone exceeds the budget.
    pub fn insert(&self, key: K, value: Arc<V>, size: usize) {
        if size > self.budget {
            return;
        }
        let mut guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *guard;
        match inner.entries.insert(key, Entry { value, size, used: false }) {
            Some(old) => inner.bytes -= old.size,
            None => inner.queue.push_back(key),
        }
        inner.bytes += size;
        while inner.bytes > self.budget {
            let Some(oldest) = inner.queue.pop_front() else { break };
            match inner.entries.get_mut(&oldest) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    inner.queue.push_back(oldest);
                }
                _ => {
                    if let Some(entry) = inner.entries.remove(&oldest) {
                        inner.bytes -= entry.size;
                    }
                }
            }
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_budget_holds() {
        let cache = Cache::new(100);
        for key in 0..10 {
            cache.insert(key, Arc::new(key), 10);
        }
        assert_eq!(cache.get(0).as_deref(), Some(&0));
        for key in 10..15 {
            cache.insert(key, Arc::new(key), 10);
            assert!(cache.bytes() <= 100);
        }
        assert!(cache.get(0).is_some(), "it was used");
        assert!(cache.get(1).is_none(), "it was not");
        cache.insert(99, Arc::new(99), 101);
        assert!(cache.get(99).is_none(), "too large to keep");
    }
}
