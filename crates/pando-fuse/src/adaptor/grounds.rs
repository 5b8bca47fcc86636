//! What the kernel may remember of single directories while the session does not hold
//! (docs/design/read-grants.md, "What kernels remember"): how it is made to forget that.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pando_client::grounds::Falls;
use pando_types::Ino;

use crate::adaptor::state::holding::{Ending, Holding};
use crate::adaptor::state::inner::Inner;
use crate::device::notify::Notifier;
use crate::mounting::submounts::has_submounts;
use crate::remembered::memory::since_boot;

/// Times after which a kernel that did not know a node is told once more to forget its attributes.
/// A thread may take a node in from an answer that was sent before.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// Nodes that are to be forgotten again, at most. Later ones have the kernel's timeouts.
const AGAIN_MAX: usize = 1 << 16;
/// While nothing is to be forgotten, nothing but a fall ends the wait.
const LONG: Duration = Duration::from_secs(3_600);

/// Nodes that the kernel did not know. They are in the order of their times.
#[derive(Default)]
struct Again {
    nodes: VecDeque<(Instant, Ino)>,
}

impl Again {
    fn add(&mut self, inos: &[Ino]) {
        for pause in AGAIN_AFTER {
            let at = Instant::now() + pause;
            let room = AGAIN_MAX.saturating_sub(self.nodes.len());
            self.nodes.extend(inos.iter().take(room).map(|ino| (at, *ino)));
        }
        self.nodes.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    fn wait(&self) -> Duration {
        self.nodes.front().map_or(LONG, |(at, _)| at.saturating_duration_since(Instant::now()))
    }

    fn take_due(&mut self) -> impl Iterator<Item = Ino> {
        let now = Instant::now();
        let due = self.nodes.iter().take_while(|(at, _)| *at <= now).count();
        self.nodes.drain(..due).map(|(_, ino)| ino)
    }
}

/// Files may leave these entries. Until this is dropped, nothing is told by the grounds of their
/// directories.
pub(crate) struct Leaving<'a> {
    inner: &'a Inner,
    entries: Vec<(Ino, u64)>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Some(grounds) = self.inner.memory.grounds() else { return };
        for (dir, key) in &self.entries {
            // Where it goes, its directory's ground may be none.
            if let Some(ino) = grounds.change_ends(*dir, *key) {
                self.inner.forget_attributes_of(ino.0);
            }
            grounds.change_ended(*dir, *key);
        }
    }
}

impl Inner {
    /// Notes that files are about to leave these entries, of a directory and a name's key each.
    pub(crate) fn leaving<I: IntoIterator<Item = (Ino, u64)>>(
        &self,
        entries: impl FnOnce() -> I,
    ) -> Leaving<'_> {
        let grounds = self.memory.grounds();
        let entries: Vec<_> = grounds.map(|_| entries().into_iter().collect()).unwrap_or_default();
        for (dir, _) in &entries {
            grounds.into_iter().for_each(|grounds| grounds.change_begins(*dir));
        }
        Leaving { inner: self, entries }
    }

    /// Begins to let the kernel remember by grounds, and the thread that makes it forget. `None`:
    /// there are none.
    pub(crate) fn watch_grounds(self: &Arc<Self>) -> std::io::Result<Option<Holding>> {
        let Some(grounds) = self.fs.namespace().grounds() else { return Ok(None) };
        let Some(notifier) = self.notifier().cloned() else { return Ok(None) };
        let ending = Arc::new(Ending::default());
        let (inner, told, on) = (Arc::clone(self), Arc::clone(&ending), Arc::clone(&grounds));
        let forget = move || {
            let mut again = Again::default();
            while !told.is_ended() {
                match told.within_unless_ended(again.wait(), pin!(on.falls())) {
                    Some(falls) => inner.forget_fallen(&told, &falls, &mut again),
                    None => again.take_due().for_each(|ino| inner.forget_attributes_of(ino.0)),
                }
            }
            // The file system is unmounted: no kernel remembers anything.
            on.close();
        };
        let thread = std::thread::Builder::new().name("pando-ground".to_owned()).spawn(forget)?;
        grounds.watch(Box::new(move || notifier.newest_request()));
        self.memory.set_grounds(grounds);
        Ok(Some(Holding { ending, thread: Some(thread) }))
    }

    /// Makes the kernel forget what it was told by grounds that fall.
    fn forget_fallen(&self, ending: &Ending, falls: &Falls, again: &mut Again) {
        self.memory.await_answers();
        self.forget_names_until(ending, falls.names_until);
        let Some(notifier) = self.notifier() else { return };
        let is_unknown =
            |ino: &Ino| matches!(notifier.forget_attributes_of_known(ino.0), Ok(false));
        let unknown: Vec<_> = falls.nodes.iter().copied().filter(is_unknown).collect();
        if let Some(grounds) = self.memory.grounds() {
            grounds.forgotten(&falls.grants, since_boot());
        }
        again.add(&unknown);
    }

    /// Makes the kernel look up each name anew that it may remember until `until`: at once, or when
    /// that time has passed.
    fn forget_names_until(&self, ending: &Ending, until: u64) {
        if until <= since_boot() {
            return;
        }
        // The kernel would detach mounts below along with their names.
        let is_mounted_upon =
            self.device().is_none_or(|device| has_submounts(device).unwrap_or(true));
        self.memory.set_mounted_upon(is_mounted_upon);
        let forgets = |notifier: &Notifier| !is_mounted_upon && notifier.forget_names().is_ok();
        if !self.notifier().is_some_and(forgets) {
            // The kernel rounds up to its own unit of time, hence the extra time.
            let left = Duration::from_nanos(until.saturating_sub(since_boot()));
            ending.sleep(left + Duration::from_millis(20));
        }
    }
}
