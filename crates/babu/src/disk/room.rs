//! The room of a disk, which the databases of this process that lie on it share.
//!
//! On a full disk a database gives room back to the disk that it has kept, and takes it again for
//! another file. In between, other databases could take it, and the first could then make no
//! checkpoint any more. So whoever takes room for a log or a ballast asks here:
//!
//! 1. While another database *exchanges* room, it waits: for a change of logs, or for the end of an
//!    opening on a full disk.
//! 2. While another database has *lent* room to its checkpoint, it finds the disk full. The disk
//!    was full apart from that room when the loan began. Room that is made since is seen later.
//! 3. A checkpoint waits for loans to end before it begins. Its index files and its manifest then
//!    do not ask. So checkpoints of one disk had better be made one after another.
//! 4. Other processes do not ask, nor do folders on other devices of one file system.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The room of one disk. Clones are of the same disk.
#[derive(Clone, Debug, Default)]
pub struct DiskRoom(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Databases that have joined.
    joined: u64,
    /// The database that holds the room.
    holder: u64,
    exchanges: u32,
    loans: u32,
}

/// A database's part in the room of its disk.
pub(crate) struct Share {
    room: DiskRoom,
    id: u64,
}

/// An exchange or a loan. It ends when this is dropped.
pub(crate) struct Held {
    room: DiskRoom,
    is_loan: bool,
}

/// The disks of the operating system that have databases, by the number of their device.
static DEVICES: Mutex<BTreeMap<u64, Weak<Inner>>> = Mutex::new(BTreeMap::new());

impl DiskRoom {
    /// The room of a disk of the operating system.
    pub(crate) fn of_device(device: u64) -> DiskRoom {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        devices.retain(|_, room| room.strong_count() > 0);
        if let Some(room) = devices.get(&device).and_then(Weak::upgrade) {
            return DiskRoom(room);
        }
        let room = DiskRoom::default();
        devices.insert(device, Arc::downgrade(&room.0));
        room
    }

    pub(crate) fn join(&self) -> Share {
        let mut state = self.state();
        state.joined += 1;
        Share { id: state.joined, room: self.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Waits until no other database exchanges room. `None`: another has lent it.
    fn free(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.room.state();
        while state.holder != self.id && state.exchanges > 0 {
            state = self.room.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.holder == self.id || state.loans == 0).then_some(state)
    }

    /// Takes room by `take`. `None`: another database has lent the room, so the disk is full.
    pub(crate) fn grow<T>(&self, take: impl FnOnce() -> T) -> Option<T> {
        let _free = self.free()?;
        Some(take())
    }

    /// Waits until no other database has lent the room. False: one still has after `most`.
    pub(crate) fn await_loans(&self, most: Duration) -> bool {
        let state = self.room.state();
        let is_lent = |state: &mut State| state.holder != self.id && state.loans > 0;
        let waited = self.room.0.changed.wait_timeout_while(state, most, is_lent);
        let timed = waited.unwrap_or_else(PoisonError::into_inner).1;
        !timed.timed_out()
    }

    /// Begins an exchange of room. `None` as in [`Share::grow`].
    pub(crate) fn exchange(&self) -> Option<Held> {
        self.hold(false)
    }

    /// Lends room to a checkpoint. `None` as in [`Share::grow`].
    pub(crate) fn lend(&self) -> Option<Held> {
        self.hold(true)
    }

    fn hold(&self, is_loan: bool) -> Option<Held> {
        let mut state = self.free()?;
        state.holder = self.id;
        let State { exchanges, loans, .. } = &mut *state;
        *if is_loan { loans } else { exchanges } += 1;
        Some(Held { room: self.room.clone(), is_loan })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.room.state();
        let State { holder, exchanges, loans, .. } = &mut *state;
        *if self.is_loan { &mut *loans } else { &mut *exchanges } -= 1;
        if *exchanges == 0 && *loans == 0 {
            *holder = 0;
        }
        self.room.0.changed.notify_all();
    }
}
