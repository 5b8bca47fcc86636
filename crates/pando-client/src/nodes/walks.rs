//! Programs that walk a tree list one directory after the other. So directories that come next are
//! listed ahead, several at once, while answers are remembered.
//!
//! ```text
//!   a listing told of   d0  d1  d2  d3  d4  d5  d6  …
//!   d0 is listed: a walk    └── listed ahead ─┘
//!   d4 is listed, the last of these:          └── twice as many ──►
//! ```
//!
//! The transport keeps the answers. Nothing is kept here but which directories listings told of.

use std::collections::HashMap;
use std::sync::Arc;

use pando_types::reply::{Found, Listed};
use pando_types::{DirRef, Ino};
use parking_lot::Mutex;

/// Directories listed ahead at first, and at most.
const AHEAD_MIN: usize = 4;
pub(crate) const AHEAD_MAX: usize = 32;
/// Directories of which it is known that a listing told of them, at most.
const MOST: usize = 16_384;

/// Directories that listings told of.
#[derive(Default)]
pub(crate) struct Walks(Mutex<HashMap<Ino, Place>>);

/// A directory that a listing told of: which listing, and the how many-th it was there.
type Place = (Arc<Mutex<Walk>>, usize);

/// The directories of one listing.
struct Walk {
    dirs: Vec<DirRef>,
    /// So many of these were listed, or listed ahead.
    until: usize,
    /// So many are listed ahead next.
    width: usize,
}

impl Walks {
    /// Notes the directories that a listing tells of.
    pub(crate) fn note(&self, page: &[Listed]) {
        let dir = |listed: &Listed| match &listed.found {
            Found::Dir(access) => Some(access.dir),
            _ => None,
        };
        let dirs: Vec<_> = page.iter().filter_map(dir).collect();
        if dirs.len() < 2 {
            return;
        }
        let inos: Vec<_> = dirs.iter().map(|dir| dir.ino).collect();
        let walk = Arc::new(Mutex::new(Walk { dirs, until: 0, width: AHEAD_MIN }));
        let mut known = self.0.lock();
        if known.len() + inos.len() > MOST {
            known.clear();
        }
        known.extend(inos.into_iter().enumerate().map(|(at, ino)| (ino, (Arc::clone(&walk), at))));
    }

    /// Directories to list ahead, as this one is listed.
    pub(crate) fn ahead_of(&self, dir: Ino) -> Vec<DirRef> {
        let Some((walk, at)) = self.0.lock().remove(&dir) else { return Vec::new() };
        let mut walk = walk.lock();
        let from = walk.until.max(at + 1);
        if at + 1 < walk.until || from >= walk.dirs.len() {
            return Vec::new();
        }
        let to = (from + walk.width).min(walk.dirs.len());
        walk.width = (walk.width * 2).min(AHEAD_MAX);
        walk.until = to;
        walk.dirs[from..to].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use pando_types::reply::Access;
    use pando_types::{DirId, Name, Order};

    use super::*;

    fn page(inos: std::ops::Range<u64>) -> Vec<Listed> {
        let listed = |ino: u64| {
            let dir = DirRef { id: DirId(u128::from(ino).to_be_bytes()), ino: Ino(ino) };
            let access = Access { dir, mode: 0o755, uid: 0, gid: 0 };
            let name = Name::new(format!("d{ino}").as_bytes()).unwrap();
            Listed { order: Order(ino), name, found: Found::Dir(access) }
        };
        inos.map(listed).collect()
    }

    fn ahead(walks: &Walks, ino: u64) -> Vec<u64> {
        walks.ahead_of(Ino(ino)).iter().map(|dir| dir.ino.0).collect()
    }

    #[test]
    fn each_directory_of_a_walk_is_listed_ahead_once_and_ever_more_at_a_time() {
        let walks = Walks::default();
        walks.note(&page(100..200));
        let mut seen: Vec<u64> = vec![100];
        let mut times = Vec::new();
        for ino in 100..200 {
            let next = ahead(&walks, ino);
            assert!(seen.contains(&ino), "{ino} was not listed ahead");
            if !next.is_empty() {
                times.push(next.len());
            }
            seen.extend(next);
        }
        assert_eq!(seen, (100..200).collect::<Vec<_>>());
        assert_eq!(times, [4, 8, 16, 32, 32, 7]);
    }

    #[test]
    fn what_no_listing_told_of_is_no_walk() {
        let walks = Walks::default();
        walks.note(&page(100..101));
        assert_eq!(ahead(&walks, 100), [0; 0]);
        assert_eq!(ahead(&walks, 7), [0; 0]);
        walks.note(&page(100..103));
        assert_eq!(ahead(&walks, 102), [0; 0], "nothing comes after the last one");
    }

    /// A listing of more directories than are remembered ends no walk for ever.
    #[test]
    fn what_is_known_is_bounded() {
        let walks = Walks::default();
        for first in (0..4 * MOST as u64).step_by(64) {
            walks.note(&page(first..first + 64));
            assert!(walks.0.lock().len() <= MOST);
            assert_eq!(ahead(&walks, first).len(), AHEAD_MIN);
        }
    }
}
