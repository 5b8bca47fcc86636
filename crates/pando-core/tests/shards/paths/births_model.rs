//! Name versions as InfiniFS finds them, by rename lists and back-pointers (§3.3.1, Figure 4). They
//! are compared with those that shards find by content records. On any sequence of mkdir, rename,
//! exchange and rmdir both are equal.
//!
//! Where the paper is not explicit, the model takes this:
//!
//! 1. A version is the lowest that the parent's rename list does not have for the name. It "returns
//!    to the default zero" when its bearer dies, whatever later ones live.
//! 2. A back-pointer has the name of birth, too, which the paper does not list. Otherwise a
//!    directory renamed to another name could not find its entry in the list.
//! 3. A rename within one parent is a rename like any other. To bring a directory back removes
//!    nothing from the list.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::{Op, RenameFlags};
use pando_types::{DirId, DirRef, Errno, Ino};

use crate::support::Cluster;

const NAMES: [&str; 4] = ["A", "B", "C", "D"];

/// Birth parent, name, name version.
type Birth = (DirId, &'static str, u32);

/// Parent and name.
type Place = (DirId, &'static str);

struct Dir {
    dir: DirRef,
    at: Place,
    birth: Birth,
    /// The ino of its birth parent: which life of the parent it was born in.
    born_in: Ino,
    /// Whether its back-pointer to its place of birth is set.
    has_pointer: bool,
}

/// What the paper's servers would know.
#[derive(Default)]
struct Paper {
    /// Rename lists of all directories, also of removed ones: directories that were born there and
    /// live elsewhere.
    lists: BTreeSet<Birth>,
    dirs: BTreeMap<DirId, Dir>,
}

impl Paper {
    fn version(&self, (parent, name): Place) -> u32 {
        let mut versions = 0..;
        versions.find(|version| !self.lists.contains(&(parent, name, *version))).expect("endless")
    }

    fn at(&self, place: Place) -> Option<DirId> {
        self.dirs.iter().find(|(_, it)| it.at == place).map(|(id, _)| *id)
    }

    fn made(&mut self, dir: DirRef, at: Place, born_in: Ino, version: u32) {
        let birth = (at.0, at.1, version);
        let old = self.dirs.insert(dir.id, Dir { dir, at, birth, born_in, has_pointer: false });
        assert!(old.is_none(), "two directories of one id");
    }

    fn moved(&mut self, id: DirId, to: Place) {
        let it = self.dirs.get_mut(&id).expect("it lives");
        it.at = to;
        if !it.has_pointer {
            it.has_pointer = true;
            self.lists.insert(it.birth);
        }
    }

    fn died(&mut self, id: DirId) {
        let it = self.dirs.remove(&id).expect("it lived");
        if it.has_pointer {
            assert!(self.lists.remove(&it.birth), "the pointer leads to the list");
        }
    }
}

/// Counts of what a run has met.
#[derive(Default, Debug)]
struct Met {
    made: [u64; 4],
    moved: u64,
    replaced: u64,
    exchanged: u64,
    removed: u64,
    /// Directories made while another lived that was born there under that name, in an earlier life
    /// of the parent.
    under_old_lists: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Mkdir,
    Rename,
    Exchange,
    Rmdir,
}

/// An operation with names: mostly existing ones, or places where a living directory was born.
fn choose(
    paper: &Paper,
    random: &mut fastrand::Rng,
) -> (DirRef, &'static str, DirRef, &'static str, What) {
    let dirs: Vec<&Dir> = paper.dirs.values().collect();
    let by_id = |id: &DirId| paper.dirs.get(id).map(|it| it.dir);
    let mut place = |known: usize, of: fn(&Dir) -> Place| {
        if !dirs.is_empty() && random.usize(..10) < known {
            let (parent, name) = of(dirs[random.usize(..dirs.len())]);
            // It may have been born in a directory that is gone.
            return (by_id(&parent).unwrap_or(DirRef::ROOT), name);
        }
        let nth = random.usize(..dirs.len() + 2);
        let dir = dirs.get(nth).map_or(DirRef::ROOT, |it| it.dir);
        (dir, NAMES[random.usize(..NAMES.len())])
    };
    let at = |it: &Dir| it.at;
    let born = |it: &Dir| (it.birth.0, it.birth.1);
    let (new, old, to) = (place(7, born), place(9, at), place(4, at));
    match random.usize(..20) {
        0..9 => (new.0, new.1, to.0, to.1, What::Mkdir),
        9..14 => (old.0, old.1, to.0, to.1, What::Rename),
        14 => (old.0, old.1, to.0, to.1, What::Exchange),
        _ => (old.0, old.1, to.0, to.1, What::Rmdir),
    }
}

fn one_step(c: &mut Cluster, paper: &mut Paper, random: &mut fastrand::Rng, met: &mut Met) {
    let (from, name, to, new_name, what) = choose(paper, random);
    let (here, there) = ((from.id, name), (to.id, new_name));
    let (source, target) = (paper.at(here), paper.at(there));
    match what {
        What::Mkdir => match c.mkdir(from, name) {
            Ok(dir) => {
                let version = paper.version(here);
                assert_eq!(dir.id, c.secrets.dir_id(from.id, &c.name(name), version), "{here:?}");
                met.made[version.min(3) as usize] += 1;
                let is_older =
                    |it: &Dir| (it.birth.0, it.birth.1) == here && it.born_in != from.ino;
                met.under_old_lists += u64::from(paper.dirs.values().any(is_older));
                paper.made(dir, here, from.ino, version);
            }
            Err(errno) => assert_eq!((errno, source.is_some()), (Errno::EEXIST, true)),
        },
        What::Rename | What::Exchange => {
            let exchange = what == What::Exchange;
            let flags = RenameFlags { exchange, no_replace: false };
            let (name, new_name) = (c.name(name), c.name(new_name));
            let op = Op::Rename { from, name, to, new_name, flags };
            match (c.done(&op), source) {
                (Ok(()), Some(source)) if here != there => {
                    match target {
                        Some(target) if exchange => {
                            paper.moved(target, here);
                            met.exchanged += 1;
                        }
                        Some(target) => {
                            paper.died(target);
                            met.replaced += 1;
                        }
                        None => assert!(!exchange),
                    }
                    paper.moved(source, there);
                    met.moved += 1;
                }
                (Ok(()), Some(_)) => {}
                (Ok(()), None) => panic!("nothing was there"),
                (Err(errno), _) => {
                    let known = [Errno::ENOENT, Errno::EINVAL, Errno::ENOTEMPTY];
                    assert!(known.contains(&errno), "{errno:?}");
                }
            }
        }
        What::Rmdir => match (c.rmdir(from, name), source) {
            (Ok(()), Some(source)) => {
                paper.died(source);
                met.removed += 1;
            }
            (Ok(()), None) => panic!("nothing was there"),
            (Err(errno), _) => assert!([Errno::ENOENT, Errno::ENOTEMPTY].contains(&errno)),
        },
    }
    // An id is free when the last shard has dropped its records.
    c.settle();
}

#[test]
fn name_versions_are_those_of_rename_lists_and_back_pointers() {
    // Directories that stay whole, and directories that split and merge all the time.
    for threshold in [1000, 4] {
        let mut met = Met::default();
        for seed in 1..=12 {
            let mut c = Cluster::with(4, |config| {
                (config.split_threshold, config.lease) = (threshold, u64::MAX / 4);
            });
            let (mut paper, mut random) = (Paper::default(), fastrand::Rng::with_seed(seed));
            for _ in 0..600 {
                one_step(&mut c, &mut paper, &mut random, &mut met);
            }
            for it in paper.dirs.values() {
                let (parent, name, version) = it.birth;
                assert_eq!(it.dir.id, c.secrets.dir_id(parent, &c.name(name), version));
            }
        }
        println!("{met:?}");
        assert!(met.made.iter().all(|made| *made > 5), "{met:?}");
        assert!(met.moved > 200 && met.replaced > 20 && met.exchanged > 5, "{met:?}");
        assert!(met.removed > 50 && met.under_old_lists > 5, "{met:?}");
    }
}
