//! Versions of directories that this shard knows.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use pando_types::{Ino, News, Trail};

/// Changes that a list holds. With one rename of a directory per second, an idle client may be an
/// hour behind.
pub const LIST_MAX: usize = 4096;

/// What a list says of a trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrailState {
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
    pub fn judge(&self, trail: &Trail, own: Option<u64>) -> Option<TrailState> {
        if trail.dirs.is_empty() {
            return Some(TrailState::Same);
        }
        let known = self.known?;
        if trail.version >= known {
            return Some(TrailState::Same);
        }
        if trail.version < self.floor {
            return Some(TrailState::Changed);
        }
        let is_named =
            |(version, dir): &(u64, Ino)| Some(*version) != own && trail.dirs.contains(dir);
        Some(if self.above(trail.version).any(is_named) {
            TrailState::Changed
        } else {
            TrailState::Same
        })
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
    fn a_shard_that_has_just_started_judges_no_trail() {
        let mut versions = Versions::default();
        versions.learn(5, &[(5, Ino(1))]);
        assert_eq!(versions.judge(&trail(9, &[1]), None), None);
        assert_eq!(
            versions.judge(&trail(9, &[]), None),
            Some(TrailState::Same),
            "there is no trail to judge"
        );
        assert_eq!(versions.news(&trail(0, &[])), None);
    }

    #[test]
    fn only_versions_above_the_trails_own_count() {
        let versions = known();
        let judge = |version, dirs: &[u64]| versions.judge(&trail(version, dirs), None);
        assert_eq!(judge(10, &[1]), Some(TrailState::Changed));
        assert_eq!(judge(11, &[9, 1]), Some(TrailState::Changed));
        assert_eq!(judge(12, &[1]), Some(TrailState::Same));
        assert_eq!(judge(12, &[1, 3]), Some(TrailState::Changed));
        assert_eq!(judge(14, &[1, 2, 3]), Some(TrailState::Same));
        assert_eq!(judge(20, &[1, 2, 3]), Some(TrailState::Same), "others have told it more");
        assert_eq!(judge(10, &[4]), Some(TrailState::Same));
    }

    #[test]
    fn below_the_floor_all_may_have_changed() {
        let versions = known();
        assert_eq!(versions.judge(&trail(9, &[7]), None), Some(TrailState::Changed));
        let news = versions.news(&trail(9, &[])).expect("news");
        assert_eq!((news.since, news.version, news.changed.len()), (10, 14, 3));
    }

    #[test]
    fn what_a_request_has_caused_itself_does_not_stop_it() {
        let versions = known();
        assert_eq!(versions.judge(&trail(12, &[3]), Some(14)), Some(TrailState::Same));
        assert_eq!(versions.judge(&trail(10, &[1]), Some(14)), Some(TrailState::Changed));
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
        assert_eq!(versions.judge(&trail(floor, &[u64::MAX]), None), Some(TrailState::Same));
        assert_eq!(versions.judge(&trail(floor - 1, &[u64::MAX]), None), Some(TrailState::Changed));
    }
}
