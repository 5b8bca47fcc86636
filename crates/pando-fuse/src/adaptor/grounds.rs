//! What the kernel may remember of single directories while the session does not hold
//! (docs/design/read-grants.md, "What kernels remember"): how it is made to forget that.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pando_client::Grounds;
use pando_client::grounds::Watch;
use pando_types::{Errno, Ino};

use crate::adaptor::state::holding::{Ending, Holding};
use crate::adaptor::state::inner::Inner;
use crate::device::notify::Notifier;
use crate::device::staffing::step_aside;
use crate::mounting::submounts::has_submounts;

/// Times after which a kernel that did not know a node is told once more to forget its attributes.
/// A thread may take a node in from an answer that was sent before.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// Nodes that are to be forgotten again, at most. Later ones have the kernel's timeouts.
const AGAIN_MAX: usize = 1 << 16;
/// How often it is looked whether something is still mounted upon the mount.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
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

/// Files may leave these entries. Until this is over, nothing is told by the grounds of their
/// directories.
pub(crate) struct Leaving<'a> {
    inner: &'a Inner,
    entries: Vec<(Ino, u64)>,
    /// Whether it is known what became of the change.
    is_known: bool,
}

impl Leaving<'_> {
    /// Takes in what became of the change. The kernel is about to hear of it.
    pub(crate) fn left(mut self, outcome: Result<(), Errno>) {
        self.is_known = !matches!(outcome, Err(Errno::ETIMEDOUT | Errno::EIO));
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Some(grounds) = self.inner.memory.grounds() else { return };
        for (dir, key) in &self.entries {
            // Where it goes, its directory's ground may be none.
            for ino in grounds.change_ends(*dir, *key) {
                self.inner.forget_attributes_of(ino.0);
            }
            grounds.change_ended(*dir, *key, self.is_known);
        }
        if !self.is_known {
            let dirs: Vec<_> = self.entries.iter().map(|(dir, _)| *dir).collect();
            self.inner.names_left(&dirs);
        }
    }
}

impl Inner {
    /// Notes that files are about to leave these entries, of a directory and a name's key each.
    pub(crate) fn leaving<I: IntoIterator<Item = (Ino, u64)>>(
        &self,
        entries: impl FnOnce(&Grounds) -> I,
    ) -> Leaving<'_> {
        let mut leaving = Leaving { inner: self, entries: Vec::new(), is_known: false };
        if let Some(grounds) = self.memory.grounds() {
            leaving.entries.extend(entries(grounds));
            leaving.entries.iter().for_each(|(dir, _)| grounds.change_begins(*dir));
        }
        leaving
    }

    /// Names have left these directories, or may yet. The kernel would remember in their new
    /// directories what it was told of them in the old ones.
    pub(crate) fn names_left(&self, dirs: &[Ino]) {
        let Some(grounds) = self.memory.grounds() else { return };
        let left = grounds.names_leave(dirs);
        if left > 0 {
            self.forget_names_within(left, |time| {
                let _ = step_aside();
                std::thread::sleep(time);
            });
            grounds.names_forgotten(dirs);
        }
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
                let is_mounted_upon = inner.memory.is_mounted_upon();
                let wait = if is_mounted_upon { LOOK_AGAIN } else { LONG };
                let falls = told.within_unless_ended(again.wait().min(wait), pin!(on.falls()));
                match falls {
                    Some(()) => inner.forget_fallen(&told, &on, &mut again),
                    None if is_mounted_upon => drop(inner.look_for_mounts()),
                    None => {}
                }
                again.take_due().for_each(|ino| inner.forget_attributes_of(ino.0));
            }
            // The file system is unmounted: no kernel remembers anything.
            on.close();
        };
        let begun = Instant::now();
        let clock = move || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let newest = Box::new(move || notifier.newest_request());
        if !grounds.watch(Watch { newest, clock: Box::new(clock) }) {
            return Ok(None);
        }
        let thread = std::thread::Builder::new().name("pando-ground".to_owned()).spawn(forget)?;
        self.memory.set_grounds(grounds);
        Ok(Some(Holding { ending, thread: Some(thread) }))
    }

    /// Makes the kernel forget what it was told by grounds that fall.
    fn forget_fallen(&self, ending: &Ending, grounds: &Grounds, again: &mut Again) {
        self.memory.await_answers();
        let falls = grounds.take_falls();
        if falls.names_left > 0 {
            self.forget_names_within(falls.names_left, |time| ending.sleep(time));
        }
        let Some(notifier) = self.notifier() else { return };
        let is_unknown =
            |ino: &Ino| matches!(notifier.forget_attributes_of_known(ino.0), Ok(false));
        let unknown: Vec<_> = falls.nodes.iter().copied().filter(is_unknown).collect();
        grounds.forgotten(&falls.grants);
        again.add(&unknown);
    }

    /// Looks whether something is mounted upon this mount.
    fn look_for_mounts(&self) -> bool {
        let is_so = self.device().is_none_or(|device| has_submounts(device).unwrap_or(true));
        self.memory.set_mounted_upon(is_so);
        is_so
    }

    /// Makes the kernel look up each name anew. Otherwise it remembers names for so many
    /// nanoseconds, for which this waits by `sleep` if it must: what is mounted below would be
    /// detached along with its name.
    fn forget_names_within(&self, left: u64, sleep: impl FnOnce(Duration)) {
        let is_mounted_upon = self.look_for_mounts();
        let forgets = |notifier: &Notifier| !is_mounted_upon && notifier.forget_names().is_ok();
        if !self.notifier().is_some_and(forgets) {
            sleep(Duration::from_nanos(left));
        }
    }
}
