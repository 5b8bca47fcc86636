//! Contents of files, compared with a local disk: random calls are made on both, and then the bytes
//! are compared.
//!
//! The calls run on a volume of `pando up`, and on two mounts, of which one writes and closes its
//! files before the other reads. `PANDO_SEED` runs one seed, and `PANDO_CONTENTS_SEEDS` is the
//! number of seeds (`PANDO_LONG`: many more).
//!
//! A further test writes directly, past the kernel's pages, beside readers of those pages.

#[path = "../common/mod.rs"]
mod common;

mod acts;
mod tree;

use std::fmt::Write as _;
use std::process::Command;

use acts::{Act, Maker};
use common::site::Site;
use common::{Scratch, TINY, Volume, all, pando};
use tree::Tree;

/// Number of calls between two looks at everything.
const LOOK: usize = 15;
const LOOKS: usize = 8;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The seeds to run. Without environment variables, they are the first `few`.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let long = std::env::var_os("PANDO_LONG").is_some();
    match (number("PANDO_SEED"), number("PANDO_CONTENTS_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 1..1 + count.unwrap_or(if long { 1_000 } else { few }),
    }
}

/// Runs one history on the local disk and on all sides.
fn run(seed: u64, local: &mut Tree, sides: &mut [Tree]) {
    let mut maker = Maker::new(seed);
    let mut history = String::new();
    let fail = |history: &str, what: &str| -> ! {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        panic!(
            "seed {seed}:{history}\n{what}\nagain: PANDO_SEED={seed} cargo test -p pando --test contents {name}"
        )
    };
    for look in 0..LOOKS {
        let side = look % sides.len();
        for act in (0..LOOK).map(|_| maker.make()).chain([Act::CloseAll]) {
            write!(history, "\n  {side} {act:?}").unwrap();
            let (expected, found) = (local.run(&act), sides[side].run(&act));
            if expected != found {
                fail(&history, &format!("a local disk says {expected}, and here it is {found}"));
            }
        }
        // Sides that have not written look first.
        let seen = local.look();
        for nth in (0..sides.len()).rev() {
            let side = (side + nth) % sides.len();
            if let Some(difference) = seen.differs(&sides[side].look()) {
                fail(&history, &format!("through mount {side}: {difference}"));
            }
        }
    }
}

#[test]
fn files_contain_what_they_do_on_a_local_disk_alone() {
    let scratch = Scratch::new();
    let volume = Volume::up(&TINY);
    for seed in seeds(20) {
        let folder = format!("seed-{seed}");
        let mut local = Tree::new(&scratch.path().join(&folder));
        run(seed, &mut local, &mut [Tree::new(&volume.mount.join(&folder))]);
    }
    whole(&volume.folder);
}

#[test]
fn files_contain_what_they_do_on_a_local_disk_through_two_mounts() {
    let scratch = Scratch::new();
    let mut site = Site::new(&["0,1", "2,3"], &TINY);
    site.mount(&[]);
    site.mount(&[]);
    for seed in seeds(5) {
        let folder = format!("seed-{seed}");
        let mut local = Tree::new(&scratch.path().join(&folder));
        let first = Tree::new(&site.at(0, &folder));
        run(seed, &mut local, &mut [first, Tree::of(&site.at(1, &folder))]);
    }
    whole(&site.folder);
}

/// Follows xfstests generic/451.
#[test]
fn what_was_written_past_the_pages_is_what_their_readers_see() {
    let volume = Volume::up(&TINY);
    let mut program = Command::new("python3");
    program.args(["-c", include_str!("direct.py")]).arg(volume.mount.join("file"));
    let output = program.output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

fn whole(folder: &std::path::Path) {
    let judged = pando().arg("fsck").arg(folder).output().unwrap();
    assert!(judged.status.success(), "{}", all(&judged));
}
