//! The store of a shard: a sorted map. It can be unreadable in part, and single reads and inputs
//! can fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use pando_core::{Effects, Halt, Input, Now, Rows, Shard, Write};
use pando_types::{Errno, ShardIndex};

use super::Cluster;

#[derive(Default)]
pub struct Store {
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    pub unreadable: RefCell<Vec<Range<Vec<u8>>>>,
    pub reads_left: Rc<Cell<Option<u64>>>,
}

impl Store {
    pub fn apply(&mut self, writes: Vec<Write>) {
        for write in writes {
            match write {
                Write::Put(key, value) => drop(self.rows.insert(key, value)),
                Write::Delete(key) => drop(self.rows.remove(&key)),
                Write::DeleteRange(from, to) => {
                    self.rows.retain(|key, _| *key < from || *key >= to);
                }
            }
        }
    }

    /// Fails if this key cannot be read, or if a read begins here that is to fail.
    fn check(&self, key: &[u8], begins: bool) -> Result<(), Halt> {
        let fails = begins && is_due(&self.reads_left);
        let holds = |range: &Range<Vec<u8>>| *range.start <= *key && *key < *range.end;
        if fails || self.unreadable.borrow().iter().any(holds) {
            return Err(Halt::Unreadable("a block is damaged".to_owned()));
        }
        Ok(())
    }
}

impl Rows for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        self.check(key, true)?;
        Ok(self.rows.get(key).cloned())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        self.check(from, true)?;
        for (key, value) in self.rows.range(from.to_vec()..to.to_vec()) {
            self.check(key, false)?;
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

/// Counts down. True at the end of the count.
fn is_due(left: &Cell<Option<u64>>) -> bool {
    let before = left.get();
    left.set(before.and_then(|left| left.checked_sub(1)));
    before == Some(0)
}

/// What fails once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A read.
    Read,
    /// An input: its writes and messages are dropped.
    Input,
}

/// Faults to come.
#[derive(Default)]
pub struct Faults {
    pub reads_left: Rc<Cell<Option<u64>>>,
    inputs_left: Cell<Option<u64>>,
}

impl Faults {
    /// Handles an input as a shell does.
    pub fn handle(
        &self,
        core: &mut Shard,
        (now, input): (Now, Input),
        store: &Store,
    ) -> Result<Effects, Halt> {
        let handled = core.handle(now, input, store);
        let is_dropped = is_due(&self.inputs_left);
        match handled {
            Ok(effects) if now.is_spent && !effects.writes.is_empty() => {
                core.begin_anew(now, Errno::ENOSPC, store)
            }
            Err(Halt::Unreadable(_)) => core.begin_anew(now, Errno::EIO, store),
            Ok(_) if is_dropped => core.begin_anew(now, Errno::EIO, store),
            handled => handled,
        }
    }
}

impl Cluster {
    /// Lets one read or input fail, after so many others.
    pub fn fail(&mut self, what: Fault, after: u64) {
        match what {
            Fault::Read => self.faults.reads_left.set(Some(after)),
            Fault::Input => self.faults.inputs_left.set(Some(after)),
        }
    }

    /// Whether the planned fault has happened. From now on none happens.
    pub fn has_failed(&mut self) -> bool {
        let left = [self.faults.reads_left.take(), self.faults.inputs_left.take()];
        left == [None, None]
    }

    /// Makes these keys of a shard unreadable, and all others readable.
    pub fn spoil(&mut self, shard: ShardIndex, keys: impl IntoIterator<Item = Range<Vec<u8>>>) {
        let store = &self.shards[usize::from(shard.0)].1;
        store.unreadable.replace(keys.into_iter().collect());
    }

    /// Changes rows in a shard's store, unknown to the shard.
    pub fn write(&mut self, shard: ShardIndex, writes: Vec<Write>) {
        self.shards[usize::from(shard.0)].1.apply(writes);
    }
}
