//! One test for each claim of InfiniFS §3.3.1 (predictable directory ids, Figure 4) that is about
//! ids.
//!
//! Deviation: Pando has no rename list and no back-pointer. The content records themselves tell
//! which versions are taken. Each test names what the paper's lists would hold, and shows that the
//! version is the paper's.

use std::collections::BTreeSet;

use pando_placement::Secrets;
use pando_types::{DirId, Name};

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Ids of all directories that have a content record, even if they were renamed elsewhere.
struct Contents {
    secrets: Secrets,
    ids: BTreeSet<DirId>,
}

impl Contents {
    fn new() -> Self {
        let secrets = Secrets { dir: [7; 32], name: [7; 16] };
        Self { secrets, ids: BTreeSet::from([DirId::ROOT]) }
    }

    /// Inserts the content record under the first version that has a free id.
    fn mkdir(&mut self, parent: DirId, text: &str) -> (u32, DirId) {
        let name = name(text);
        let mut births = self.secrets.births(parent, &name);
        births.find(|&(_, id)| self.ids.insert(id)).unwrap()
    }

    fn rmdir(&mut self, id: DirId) {
        assert!(self.ids.remove(&id));
    }
}

/// "When creating a new directory, we generate the directory's ID by hashing its birth triple."
#[test]
fn the_same_triple_gives_the_same_id_everywhere() {
    let (a, b) = (Contents::new(), Contents::new());
    for version in [0, 1, u32::MAX] {
        let id = |contents: &Contents| contents.secrets.dir_id(DirId::ROOT, &name("A"), version);
        assert_eq!(id(&a), id(&b));
    }
}

#[test]
fn each_part_of_the_triple_changes_the_id() {
    let secrets = Contents::new().secrets;
    let a = secrets.dir_id(DirId::ROOT, &name("A"), 0);
    let others = [
        secrets.dir_id(a, &name("A"), 0),
        secrets.dir_id(DirId::ROOT, &name("B"), 0),
        secrets.dir_id(DirId::ROOT, &name("A"), 1),
        // No byte moves from the version into the name.
        secrets.dir_id(DirId::ROOT, &name("\u{1}A"), 0),
    ];
    assert!(others.iter().all(|&other| other != a));
    assert_eq!(BTreeSet::from(others).len(), others.len());
}

/// §3.3.2: "reconstructs the birth triples with 0 as the version number".
#[test]
fn a_path_is_predicted_from_the_root_alone() {
    let mut contents = Contents::new();
    let mut made = DirId::ROOT;
    let mut predicted = DirId::ROOT;
    for component in ["A", "B", "C", "D"] {
        made = contents.mkdir(made, component).1;
        predicted = contents.secrets.dir_id(predicted, &name(component), 0);
        assert_eq!(predicted, made);
    }
}

/// Figure 4(b): `rename(/A/B, /B)`. The rename list of A is ⟨B, 0⟩, so a new B under /A takes
/// version 1.
#[test]
fn figure_4b_a_new_sibling_of_a_renamed_directory_takes_version_1() {
    let mut contents = Contents::new();
    let (_, a) = contents.mkdir(DirId::ROOT, "A");
    let (born, b) = contents.mkdir(a, "B");
    assert_eq!(born, 0);
    // The rename changes the entry, not the content: "its content metadata and ID remain
    // unmodified".
    let (version, second) = contents.mkdir(a, "B");
    assert_eq!(version, 1);
    assert_ne!(second, b);
}

/// Figure 4(c): deleting the renamed B erases rename list and back-pointer. A new B under /A takes
/// version 0 again.
#[test]
fn figure_4c_version_returns_to_0_when_the_renamed_directory_is_deleted() {
    let mut contents = Contents::new();
    let (_, a) = contents.mkdir(DirId::ROOT, "A");
    let (_, b) = contents.mkdir(a, "B");
    contents.rmdir(b);
    assert_eq!(contents.mkdir(a, "B"), (0, b));
}

/// Several siblings were born as B and moved away. When one dies, its version alone is free.
#[test]
fn the_first_free_version_is_taken() {
    let mut contents = Contents::new();
    let (_, a) = contents.mkdir(DirId::ROOT, "A");
    let births: Vec<_> = (0..3).map(|_| contents.mkdir(a, "B")).collect();
    assert_eq!(births.iter().map(|&(version, _)| version).collect::<Vec<_>>(), [0, 1, 2]);
    contents.rmdir(births[1].1);
    assert_eq!(contents.mkdir(a, "B"), births[1]);
}

/// "When deleting the birth parent of a renamed directory … the birth parent's RL is retained."
#[test]
fn a_reborn_parent_does_not_reuse_the_id_of_a_child_that_lives_elsewhere() {
    let mut contents = Contents::new();
    let (_, a) = contents.mkdir(DirId::ROOT, "A");
    let (_, b) = contents.mkdir(a, "B");
    contents.rmdir(a);
    let (version, reborn) = contents.mkdir(DirId::ROOT, "A");
    assert_eq!((version, reborn), (0, a));
    let (version, other) = contents.mkdir(reborn, "B");
    assert_eq!(version, 1);
    assert_ne!(other, b);
}

/// "We handle a hash collision in the same way as a renaming."
#[test]
fn a_collision_takes_the_next_version() {
    let mut contents = Contents::new();
    contents.ids.insert(contents.secrets.dir_id(DirId::ROOT, &name("A"), 0));
    assert_eq!(contents.mkdir(DirId::ROOT, "A").0, 1);
}

/// Not in the paper: without the volume's secret, a client cannot aim directories at one shard.
#[test]
fn another_secret_gives_other_ids_and_orders() {
    let secrets = Contents::new().secrets;
    let other_dir = Secrets { dir: [8; 32], ..secrets.clone() };
    let other_name = Secrets { name: [8; 16], ..secrets.clone() };
    let id = |secrets: &Secrets| secrets.dir_id(DirId::ROOT, &name("A"), 0);
    assert_ne!(id(&secrets), id(&other_dir));
    assert_eq!(id(&secrets), id(&other_name));
    assert_eq!(secrets.order(b"A"), other_dir.order(b"A"));
    assert_ne!(secrets.order(b"A"), other_name.order(b"A"));
}
