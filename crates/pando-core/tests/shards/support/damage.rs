//! Stores that are unreadable in part, and inputs that fail.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use pando_core::{Effects, Halt, Input, Now, Shard, Write};
use pando_types::{Errno, ShardIndex};

use super::{Cluster, Store};

/// Which parts of a store cannot be read.
#[derive(Default)]
pub struct Damage {
    ranges: RefCell<Vec<Range<Vec<u8>>>>,
    reads_left: Rc<Cell<Option<u64>>>,
}

impl Damage {
    /// Notes that a read begins. Fails if this read is to fail.
    pub fn read(&self, key: &[u8], _: &[u8]) -> Result<(), Halt> {
        match self.reads_left.get() {
            Some(0) => {
                self.reads_left.set(None);
                return Err(unreadable());
            }
            Some(left) => self.reads_left.set(Some(left - 1)),
            None => {}
        }
        self.touch(key)
    }

    /// Notes that a read comes to a key. Fails if the key cannot be read.
    pub fn touch(&self, key: &[u8]) -> Result<(), Halt> {
        let is_bad =
            self.ranges.borrow().iter().any(|range| *range.start <= *key && *key < *range.end);
        if is_bad { Err(unreadable()) } else { Ok(()) }
    }
}

fn weight(write: &Write) -> usize {
    match write {
        Write::Put(first, second) | Write::DeleteRange(first, second) => first.len() + second.len(),
        Write::Delete(key) => key.len(),
    }
}

fn unreadable() -> Halt {
    Halt::Unreadable("a block is damaged".to_owned())
}

/// Faults to come.
#[derive(Default)]
pub struct Faults {
    reads_left: Rc<Cell<Option<u64>>>,
    inputs_left: Option<u64>,
    most: Option<usize>,
}

impl Faults {
    /// Damage of a new store, with this counter of reads.
    pub fn damage(&self) -> Damage {
        Damage { reads_left: self.reads_left.clone(), ..Damage::default() }
    }

    /// Handles an input as a shell does.
    pub(super) fn handle(
        &mut self,
        core: &mut Shard,
        (now, input): (Now, Input),
        store: &Store,
    ) -> Result<Effects, Halt> {
        let handled = core.handle(now, input, store);
        if let (Some(most), Ok(effects)) = (self.most, &handled) {
            let bytes: usize = effects.writes.iter().map(weight).sum();
            assert!(bytes <= most, "{bytes} bytes are written at once");
        }
        let is_dropped = match &mut self.inputs_left {
            Some(0) => {
                self.inputs_left = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
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
    /// From now on no input may write more than this many bytes.
    pub fn write_at_most(&mut self, bytes: usize) {
        self.faults.most = Some(bytes);
    }

    /// Lets one read fail, after so many others.
    pub fn fail_read(&mut self, after: u64) {
        self.faults.reads_left.set(Some(after));
    }

    /// Drops the writes and messages of one input, after so many others.
    pub fn drop_input(&mut self, after: u64) {
        self.faults.inputs_left = Some(after);
    }

    /// Whether the planned fault has happened. From now on none happens.
    pub fn has_gone_wrong(&mut self) -> bool {
        let is_left =
            self.faults.reads_left.take().is_some() || self.faults.inputs_left.take().is_some();
        !is_left
    }

    /// Makes these keys of a shard unreadable.
    pub fn spoil(&mut self, shard: ShardIndex, keys: Range<Vec<u8>>) {
        self.shards[usize::from(shard.0)].1.1.ranges.borrow_mut().push(keys);
    }

    /// Makes all keys of a shard readable again.
    pub fn mend(&mut self, shard: ShardIndex) {
        self.shards[usize::from(shard.0)].1.1.ranges.borrow_mut().clear();
    }
}
