//! Connections that have been let in, by whose they are: to be ended when their key counts no more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pando_keys::Serial;
use pando_net::{Stream, Who};
use parking_lot::Mutex;

/// All of a process.
#[derive(Default)]
pub(super) struct Guests {
    count: AtomicU32,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    guests: BTreeMap<u64, Guest>,
    revoked: BTreeSet<Serial>,
}

struct Guest {
    who: Who,
    is_server: bool,
    /// Once it has one in the runtime that serves it.
    stream: Option<Arc<Stream>>,
    is_cut: bool,
}

/// A place among the connections that a process takes. Dropped when the connection ends.
pub(super) struct Place {
    guests: Arc<Guests>,
    number: u64,
}

impl Guests {
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// A connection of one more, if there are fewer than `most`. `is_server`: shards speak on it. One whose key was revoked since
    /// it was looked at is cut at once.
    pub(super) fn enter(self: &Arc<Self>, who: &Who, is_server: bool, most: u32) -> Option<Place> {
        let fits = |count: u32| (count < most).then(|| count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fits).ok()?;
        let mut table = self.table.lock();
        let is_cut = who.serial().is_some_and(|serial| table.revoked.contains(&serial));
        let number = table.next;
        table.next += 1;
        let guest = Guest { who: who.clone(), is_server, stream: None, is_cut };
        table.guests.insert(number, guest);
        Some(Place { guests: self.clone(), number })
    }

    /// Ends connections whose keys count no more: those that are `revoked`, and all others that came with a key if
    /// authorities have changed. Connections of servers end in any case: they hear at their beginning what is revoked.
    pub(super) fn cut(&self, revoked: &BTreeSet<Serial>, is_of_others: bool) {
        let mut table = self.table.lock();
        table.revoked.clone_from(revoked);
        for guest in table.guests.values_mut() {
            let serial = guest.who.serial();
            let is_over = serial.is_some_and(|it| is_of_others || revoked.contains(&it));
            if is_over || guest.is_server {
                guest.is_cut = true;
                guest.shut();
            }
        }
    }
}

impl Guest {
    fn shut(&self) {
        if let Some(stream) = &self.stream
            && self.is_cut
        {
            stream.shut();
        }
    }
}

impl Place {
    /// The connection is served from now on; if it was cut before, it ends.
    pub(super) fn serve(&self, stream: &Arc<Stream>) {
        let mut table = self.guests.table.lock();
        if let Some(guest) = table.guests.get_mut(&self.number) {
            guest.stream = Some(stream.clone());
            guest.shut();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guests.table.lock().guests.remove(&self.number);
        self.guests.count.fetch_sub(1, Ordering::AcqRel);
    }
}
