//! The versions heard of last, to judge answers that arrive late.

use std::collections::VecDeque;

use pando_types::{Ino, News};

/// Most versions remembered.
const RECENT_MAX: usize = 4096;

/// The newest version, and what the versions before it changed.
#[derive(Default, Debug)]
pub struct Recent {
    version: u64,
    /// Versions and the directories that they name, ascending: all above `floor`, up to `version`.
    list: VecDeque<(u64, Ino)>,
    floor: u64,
}

/// The effect of news.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Applied {
    /// None: the version is known already.
    Known,
    /// Some versions were missed: any directory may have changed.
    All,
    /// These directories have changed.
    These(Vec<Ino>),
}

impl Recent {
    /// Begins at `version`, with an empty memory.
    #[must_use]
    pub const fn new(version: u64) -> Self {
        Self { version, list: VecDeque::new(), floor: version }
    }

    /// The newest version.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Whether an answer about these directories, from a shard that knew `version`, still holds as
    /// far as this client has heard.
    #[must_use]
    pub fn still_holds(&self, version: u64, dirs: &[Ino]) -> bool {
        let mut later = self.list.iter().rev().take_while(|(at, _)| *at > version);
        version >= self.floor && !later.any(|(_, dir)| dirs.contains(dir))
    }

    /// Applies news.
    pub fn apply(&mut self, news: &News) -> Applied {
        if news.version <= self.version {
            return Applied::Known;
        }
        if news.since > self.version {
            *self = Self::new(news.version);
            return Applied::All;
        }
        let new = news.changed.iter().filter(|(at, _)| *at > self.version);
        let these: Vec<(u64, Ino)> = new.copied().collect();
        self.list.extend(these.iter().copied());
        while self.list.len() > RECENT_MAX
            && let Some((at, _)) = self.list.pop_front()
        {
            self.floor = at;
        }
        self.version = news.version;
        Applied::These(these.into_iter().map(|(_, dir)| dir).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(since: u64, version: u64, changed: &[(u64, u64)]) -> News {
        News { since, version, changed: changed.iter().map(|(at, dir)| (*at, Ino(*dir))).collect() }
    }

    #[test]
    fn what_was_told_holds_until_a_later_version_names_it() {
        let mut recent = Recent::new(10);
        let told = news(10, 14, &[(12, 1), (14, 2)]);
        assert_eq!(recent.apply(&told), Applied::These(vec![Ino(1), Ino(2)]));
        assert_eq!(recent.apply(&told), Applied::Known);
        assert!(recent.still_holds(12, &[Ino(1)]) && !recent.still_holds(11, &[Ino(3), Ino(1)]));
        assert!(!recent.still_holds(13, &[Ino(2)]) && recent.still_holds(10, &[Ino(3)]));
        assert!(!recent.still_holds(9, &[Ino(3)]), "from before anything was known");
        let more = news(12, 15, &[(14, 2), (15, 3)]);
        assert_eq!(recent.apply(&more), Applied::These(vec![Ino(3)]), "only what is new");
    }

    #[test]
    fn a_cache_that_has_missed_some_begins_anew() {
        let mut recent = Recent::new(10);
        assert_eq!(recent.apply(&news(11, 12, &[])), Applied::All);
        assert_eq!(recent.version(), 12);
        assert!(!recent.still_holds(11, &[Ino(1)]) && recent.still_holds(12, &[Ino(1)]));
    }

    #[test]
    fn a_full_list_forgets_the_oldest() {
        let mut recent = Recent::new(0);
        for at in 1..=RECENT_MAX as u64 + 5 {
            recent.apply(&news(at - 1, at, &[(at, at)]));
        }
        assert!(
            !recent.still_holds(4, &[Ino(u64::MAX)]) && recent.still_holds(5, &[Ino(u64::MAX)])
        );
    }
}
