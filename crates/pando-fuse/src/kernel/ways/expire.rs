//! Tells the kernel which names to ask for anew. It may wait for locks that callers of ours hold: a thread of its own does it,
//! and nobody waits for that.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::table::{Left, Table};
use crate::device::Notifier;

/// See the module.
#[derive(Default)]
pub(super) struct Expiry {
    names: Mutex<Option<Sender<Left>>>,
    expired: Arc<AtomicU64>,
}

impl Expiry {
    /// Begins to tell.
    pub(super) fn begin(&self, table: &Arc<Table>, notifier: Notifier) -> io::Result<()> {
        let (send, names) = channel();
        let (table, expired) = (Arc::clone(table), Arc::clone(&self.expired));
        let thread = std::thread::Builder::new().name("pando-expire".to_owned());
        thread.spawn(move || tell(&table, &notifier, &names, &expired))?;
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Some(send);
        Ok(())
    }

    /// The thread ends when it has told the rest.
    pub(super) fn end(&self) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(super) fn expire(&self, name: Left) {
        if let Some(names) = &*self.names.lock().unwrap_or_else(PoisonError::into_inner) {
            // If nobody listens, there is no kernel either.
            let _ = names.send(name);
        }
    }

    /// Names that the kernel was told of.
    pub(super) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }
}

fn tell(table: &Table, notifier: &Notifier, names: &Receiver<Left>, expired: &AtomicU64) {
    let mut can_expire = true;
    for left in names {
        // It may have been found again.
        if !table.is_left(&left) {
            continue;
        }
        let (_, (parent, name)) = &left;
        let parent = *parent;
        let told = if can_expire {
            notifier.expire_entry(parent, name.as_bytes())
        } else {
            notifier.inval_entry(parent, name.as_bytes())
        };
        let told = match told {
            // Before Linux 6.2. Dropping it costs who is within it the way back up, and is as good otherwise.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                can_expire = false;
                notifier.inval_entry(parent, name.as_bytes())
            }
            told => told,
        };
        match told {
            Ok(()) => {
                expired.fetch_add(1, Ordering::Relaxed);
                table.set_adrift(&left);
            }
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => return,
            // It is asked about when it is used.
            Err(_) => {}
        }
    }
}
