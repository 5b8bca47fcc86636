//! Versions of directories: which directories have changed for callers that come through them. With
//! versions a client may remember the path to a directory, and a shard sees whether the path has
//! changed (InfiniFS §3.4; docs/design/path-versions.md).
//!
//! ```text
//!   rename, exchange, chmod, chown            shard 0                     every shard
//!     locks its names, then ── Invalidate ──► version, in its list ──────► in its list
//!                                             all know it? ◄────────────── known up to …
//!     decides ◄────────────── Voted ──────────┘ (or No, after a while)
//! ```
//!
//! 1. A version is given out after the names that it concerns are locked. They stay locked until
//!    the change is decided. So a reader on a shard that knows the version reads the result of the
//!    change.
//! 2. A change is decided only when every shard knows its version. So a request by the old path
//!    runs before the change, or is refused.
//! 3. A version that was given up stays in the lists, and is told to all shards. It costs clients a
//!    lookup.
//! 4. All of this is soft state. Versions are numbers of transactions of shard 0, which are never
//!    used twice.
//! 5. A shard that has just started judges no trail until shard 0 has answered a question of this
//!    start.
//! 6. Shard 0 begins its list anew at its start, above all numbers that it may have given out.
//!    Clients with a lower version drop all that they have cached, once. The other shards' lists
//!    begin there, too, so that none stays behind. For judging they need nothing more: they know
//!    every version of shard 0's earlier life under which a change is decided.
//! 7. Lists are bounded. A client drops all that it has cached if its version is below a list's
//!    floor.

mod broadcast;
mod judge;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use pando_types::{Ino, News, Trail};

pub use broadcast::Broadcast;

/// Changes that a list holds. With one rename of a directory per second, an idle client may be an
/// hour behind.
const LIST_MAX: usize = 4096;

/// What a list says of a trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// No directory of the trail has changed.
    Same,
    /// A version above the trail's names one of its directories, or may name one.
    Changed,
}

/// The versions that one shard knows.
#[derive(Default, Debug)]
pub struct Versions {
    /// The newest version known. `None`: this shard has just started, and does not know what it has
    /// missed.
    known: Option<u64>,
    /// The list has all versions above this one, up to the newest.
    floor: u64,
    /// Each change's version and directory, ascending.
    list: VecDeque<(u64, Ino)>,
}

impl Versions {
    /// Begins the list at `version`: it knows nothing of versions up to it, and there are none
    /// above.
    pub fn begin(&mut self, version: u64) {
        (self.known, self.floor) = (Some(version), version);
        self.list.clear();
    }

    /// The newest version known. `None`: this shard has just started, and does not know what it has
    /// missed.
    pub const fn known(&self) -> Option<u64> {
        self.known
    }

    /// Takes in versions up to `version`; `changed` has all of them above what is known here. Does
    /// nothing before the list has begun.
    pub fn learn(&mut self, version: u64, changed: &[(u64, Ino)]) {
        let Some(known) = self.known.filter(|known| *known < version) else { return };
        self.list.extend(changed.iter().filter(|(at, _)| *at > known && *at <= version));
        self.known = Some(version);
        while self.list.len() > LIST_MAX
            && let Some((dropped, _)) = self.list.pop_front()
        {
            // The remaining changes of that version are useless without this one.
            self.floor = dropped;
        }
        while self.list.front().is_some_and(|(at, _)| *at <= self.floor) {
            self.list.pop_front();
        }
    }

    /// Judges `trail` by the list, without the version `own` that the request itself has caused.
    /// `None`: the list has not begun. A trail without directories is always unchanged.
    pub fn judge(&self, trail: &Trail, own: Option<u64>) -> Option<Way> {
        if trail.dirs.is_empty() {
            return Some(Way::Same);
        }
        let known = self.known?;
        if trail.version >= known {
            return Some(Way::Same);
        }
        if trail.version < self.floor {
            return Some(Way::Changed);
        }
        let is_named =
            |(version, dir): &(u64, Ino)| Some(*version) != own && trail.dirs.contains(dir);
        Some(if self.above(trail.version).any(is_named) { Way::Changed } else { Way::Same })
    }

    /// What a client with this trail has missed; `None`: nothing, or the list has not begun.
    pub fn news(&self, trail: &Trail) -> Option<News> {
        let version = self.known.filter(|known| *known > trail.version)?;
        let since = trail.version.max(self.floor);
        Some(News { since, version, changed: self.above(since).copied().collect() })
    }

    /// The list's floor, and all changes in the list.
    pub fn all(&self) -> (u64, Vec<(u64, Ino)>) {
        (self.floor, self.list.iter().copied().collect())
    }

    /// Changes with a version above `version`.
    pub fn above(&self, version: u64) -> impl Iterator<Item = &(u64, Ino)> {
        let from = self.list.partition_point(|(at, _)| *at <= version);
        self.list.range(from..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn trail(version: u64, dirs: &[u64]) -> Trail {
        Trail { version, dirs: dirs.iter().map(|dir| Ino(*dir)).collect() }
    }

    fn known() -> Versions {
        let mut versions = Versions::default();
        versions.begin(10);
        versions.learn(14, &[(12, Ino(1)), (14, Ino(2)), (14, Ino(3))]);
        versions
    }

    #[test]
    fn a_shard_that_has_just_started_judges_nobody() {
        let mut versions = Versions::default();
        versions.learn(5, &[(5, Ino(1))]);
        assert_eq!(versions.judge(&trail(9, &[1]), None), None);
        assert_eq!(
            versions.judge(&trail(9, &[]), None),
            Some(Way::Same),
            "there is no way to judge"
        );
        assert_eq!(versions.news(&trail(0, &[])), None);
    }

    #[test]
    fn only_versions_above_the_trails_own_count() {
        let versions = known();
        let way = |version, dirs: &[u64]| versions.judge(&trail(version, dirs), None);
        assert_eq!(way(10, &[1]), Some(Way::Changed));
        assert_eq!(way(11, &[9, 1]), Some(Way::Changed));
        assert_eq!(way(12, &[1]), Some(Way::Same));
        assert_eq!(way(12, &[1, 3]), Some(Way::Changed));
        assert_eq!(way(14, &[1, 2, 3]), Some(Way::Same));
        assert_eq!(way(20, &[1, 2, 3]), Some(Way::Same), "others have told it more");
        assert_eq!(way(10, &[4]), Some(Way::Same));
    }

    #[test]
    fn below_the_floor_all_may_have_changed() {
        let versions = known();
        assert_eq!(versions.judge(&trail(9, &[7]), None), Some(Way::Changed));
        let news = versions.news(&trail(9, &[])).expect("news");
        assert_eq!((news.since, news.version, news.changed.len()), (10, 14, 3));
    }

    #[test]
    fn what_a_request_has_caused_itself_does_not_stop_it() {
        let versions = known();
        assert_eq!(versions.judge(&trail(12, &[3]), Some(14)), Some(Way::Same));
        assert_eq!(versions.judge(&trail(10, &[1]), Some(14)), Some(Way::Changed));
    }

    #[test]
    fn news_are_what_is_above() {
        let versions = known();
        assert_eq!(versions.news(&trail(14, &[])), None);
        let news = versions.news(&trail(13, &[])).expect("news");
        let expected = News { since: 13, version: 14, changed: vec![(14, Ino(2)), (14, Ino(3))] };
        assert_eq!(news, expected);
    }

    #[test]
    fn repetitions_change_nothing() {
        let mut versions = known();
        versions.learn(14, &[(12, Ino(1)), (14, Ino(2)), (14, Ino(3))]);
        versions.learn(12, &[(12, Ino(1))]);
        versions.learn(15, &[(12, Ino(1)), (14, Ino(2)), (14, Ino(3)), (15, Ino(4))]);
        let (floor, list) = versions.all();
        assert_eq!(floor, 10);
        assert_eq!(list, [(12, Ino(1)), (14, Ino(2)), (14, Ino(3)), (15, Ino(4))]);
    }

    #[test]
    fn a_full_list_forgets_whole_versions() {
        let mut versions = Versions::default();
        versions.begin(0);
        for version in 1..=LIST_MAX as u64 {
            // Two directories in each version.
            versions.learn(version, &[(version, Ino(version)), (version, Ino(version + 1))]);
        }
        let (floor, list) = versions.all();
        assert!(list.len() <= LIST_MAX);
        assert_eq!(list.first().map(|(version, _)| *version), Some(floor + 1));
        assert_eq!(versions.judge(&trail(floor, &[u64::MAX]), None), Some(Way::Same));
        assert_eq!(versions.judge(&trail(floor - 1, &[u64::MAX]), None), Some(Way::Changed));
    }
}
