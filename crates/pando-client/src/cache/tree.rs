//! Access metadata of directories, in a tree of the hierarchy's shape. A list links the leaves by
//! last use, and the leaf used least recently is evicted first (InfiniFS §3.4, Figure 6). So a
//! directory near the root stays as long as anything beneath it does.
//!
//! Invariants:
//! 1. A directory is in the tree once at most. Its parent is in the tree too, up to the root, which
//!    is never removed.
//! 2. The list holds exactly the nodes without children, but for the root.
//! 3. The weight of all nodes is at most the budget.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use pando_types::reply::Access;
use pando_types::{Ino, Name, Search};

/// Bytes that a node takes, with its places in two tables and in the parent's table, but without
/// names.
const NODE_BYTES: usize = 256;
/// Index of the root.
const ROOT: u32 = 0;
/// No node.
const NONE: u32 = u32::MAX;

struct Node {
    access: Option<Access>,
    search: Option<Search>,
    parent: u32,
    name: Option<Name>,
    children: HashMap<Name, u32>,
    /// Neighbours in the list of leaves: used later, used earlier.
    later: u32,
    earlier: u32,
}

/// The tree of remembered directories.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    places: HashMap<Ino, u32, FixedState>,
    bytes: usize,
    budget: usize,
    /// The leaf used last, and the leaf to evict first.
    newest: u32,
    oldest: u32,
}

impl Tree {
    pub(crate) fn new(budget: usize) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            vacant: Vec::new(),
            places: HashMap::default(),
            bytes: 0,
            budget,
            newest: NONE,
            oldest: NONE,
        };
        tree.clear();
        tree
    }

    /// Number of directories, without the root.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - 1
    }

    /// Weight of all directories, bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops everything, and returns how many directories that were.
    pub(crate) fn clear(&mut self) -> u64 {
        let dropped = self.places.len().saturating_sub(1);
        self.nodes.clear();
        self.vacant.clear();
        self.places.clear();
        (self.bytes, self.newest, self.oldest) = (0, NONE, NONE);
        self.nodes.push(Node {
            access: None,
            search: None,
            parent: NONE,
            name: None,
            children: HashMap::new(),
            later: NONE,
            earlier: NONE,
        });
        self.places.insert(Ino::ROOT, ROOT);
        dropped as u64
    }

    /// Search permissions of a directory, if they are known.
    pub(crate) fn search(&self, dir: Ino) -> Option<Search> {
        self.node(dir).and_then(|node| node.search)
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, dir: Ino) -> bool {
        self.places.contains_key(&dir)
    }

    /// The subdirectory `name`, if it is remembered. Counts as a use of it.
    pub(crate) fn child(&mut self, dir: Ino, name: &Name) -> Option<Access> {
        let place = *self.node(dir)?.children.get(name)?;
        if self.nodes[place as usize].children.is_empty() && self.newest != place {
            self.unlink(place);
            self.link(place);
        }
        self.nodes[place as usize].access
    }

    /// Sets the root's search permissions. No entry tells them.
    pub(crate) fn set_root(&mut self, search: Search) {
        self.nodes[ROOT as usize].search = Some(search);
    }

    /// Puts a subdirectory beneath `dir`, if `dir` is in the tree, and removes it from where it
    /// was. Returns how many directories were evicted for it.
    pub(crate) fn insert(&mut self, dir: Ino, name: &Name, access: Access) -> u64 {
        let ino = access.dir.ino;
        if let Some(&place) = self.node(dir).and_then(|node| node.children.get(name))
            && let Some(Access { dir: known, .. }) = self.nodes[place as usize].access
        {
            if known.ino == ino {
                let node = &mut self.nodes[place as usize];
                node.access = Some(access);
                node.search = Some(Search::new(access.mode, access.uid, access.gid));
                return 0;
            }
            self.remove(known.ino);
        }
        self.remove(ino);
        let Some(&parent) = self.places.get(&dir) else { return 0 };
        let weight = weight(name);
        if weight > self.budget {
            return 0;
        }
        let node = Node {
            access: Some(access),
            search: Some(Search::new(access.mode, access.uid, access.gid)),
            parent,
            name: Some(name.clone()),
            children: HashMap::new(),
            later: NONE,
            earlier: NONE,
        };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        if parent != ROOT && self.nodes[parent as usize].children.is_empty() {
            self.unlink(parent);
        }
        self.nodes[parent as usize].children.insert(name.clone(), place);
        self.places.insert(ino, place);
        self.bytes += weight;
        self.link(place);
        let mut evicted = 0;
        while self.bytes > self.budget && self.oldest != NONE {
            self.take_out(self.oldest);
            evicted += 1;
        }
        evicted
    }

    /// Removes a directory and all beneath it, and returns how many that were. Of the root, removes
    /// all beneath it, and its search permissions.
    pub(crate) fn remove(&mut self, dir: Ino) -> u64 {
        let Some(&place) = self.places.get(&dir) else { return 0 };
        if place == ROOT {
            return self.clear();
        }
        // Parents come before their children, so from the end on every node is a leaf.
        let mut all = vec![place];
        let mut next = 0;
        while let Some(&at) = all.get(next) {
            all.extend(self.nodes[at as usize].children.values());
            next += 1;
        }
        for &at in all.iter().rev() {
            self.take_out(at);
        }
        all.len() as u64
    }

    fn node(&self, dir: Ino) -> Option<&Node> {
        self.places.get(&dir).map(|place| &self.nodes[*place as usize])
    }

    /// Removes a leaf. A parent that becomes a leaf goes to the front of the list: it was used when
    /// this leaf was, or later.
    fn take_out(&mut self, place: u32) {
        self.unlink(place);
        let node = &mut self.nodes[place as usize];
        debug_assert!(node.children.is_empty(), "only leaves go");
        let (parent, name, access) = (node.parent, node.name.take(), node.access.take());
        node.children = HashMap::new();
        if let Some(access) = access {
            self.places.remove(&access.dir.ino);
        }
        if let Some(name) = name {
            self.bytes -= weight(&name);
            self.nodes[parent as usize].children.remove(&name);
        }
        self.vacant.push(place);
        if parent != ROOT && self.nodes[parent as usize].children.is_empty() {
            self.link(parent);
        }
    }

    /// Puts a leaf at the front of the list.
    fn link(&mut self, place: u32) {
        let first = self.newest;
        let node = &mut self.nodes[place as usize];
        (node.later, node.earlier) = (NONE, first);
        match first {
            NONE => self.oldest = place,
            first => self.nodes[first as usize].later = place,
        }
        self.newest = place;
    }

    /// Takes a leaf out of the list.
    fn unlink(&mut self, place: u32) {
        let Node { later, earlier, .. } = self.nodes[place as usize];
        match later {
            NONE => self.newest = earlier,
            later => self.nodes[later as usize].earlier = earlier,
        }
        match earlier {
            NONE => self.oldest = later,
            earlier => self.nodes[earlier as usize].later = later,
        }
    }
}

fn weight(name: &Name) -> usize {
    NODE_BYTES + 2 * name.as_bytes().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::{DirId, DirRef};
    use std::collections::BTreeMap;

    fn called(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("valid")
    }

    fn access(ino: u64) -> Access {
        let dir = DirRef { id: DirId(u128::from(ino).to_be_bytes()), ino: Ino(ino) };
        Access { dir, mode: 0o755, uid: 1, gid: 2 }
    }

    fn put(tree: &mut Tree, dir: u64, name: &str, ino: u64) -> u64 {
        tree.insert(Ino(dir), &called(name), access(ino))
    }

    fn get(tree: &mut Tree, dir: u64, name: &str) -> Option<u64> {
        tree.child(Ino(dir), &called(name)).map(|access| access.dir.ino.0)
    }

    /// The list holds all leaves in both directions, and the weights add up.
    fn check(tree: &Tree) {
        let mut leaves = 0;
        let (mut at, mut before) = (tree.newest, NONE);
        while at != NONE {
            let node = &tree.nodes[at as usize];
            assert!(node.children.is_empty() && node.later == before && at != ROOT);
            (before, at) = (at, node.earlier);
            leaves += 1;
        }
        assert_eq!(before, tree.oldest);
        let mut bytes = 0;
        let mut expected = 0;
        for (&ino, &place) in &tree.places {
            let node = &tree.nodes[place as usize];
            if place == ROOT {
                continue;
            }
            assert_eq!(node.access.map(|access| access.dir.ino), Some(ino));
            let name = node.name.as_ref().expect("named");
            assert_eq!(tree.nodes[node.parent as usize].children.get(name), Some(&place));
            bytes += weight(name);
            expected += usize::from(node.children.is_empty());
        }
        assert_eq!((bytes, expected), (tree.bytes, leaves));
        assert!(tree.bytes <= tree.budget);
    }

    #[test]
    fn the_leaf_used_least_recently_goes_first_and_what_is_above_others_stays() {
        let mut tree = Tree::new(4 * weight(&called("a")));
        put(&mut tree, 1, "a", 10);
        put(&mut tree, 10, "b", 11);
        put(&mut tree, 10, "c", 12);
        put(&mut tree, 10, "d", 13);
        assert_eq!(get(&mut tree, 10, "b"), Some(11));
        assert_eq!(put(&mut tree, 10, "e", 14), 1);
        assert_eq!(get(&mut tree, 10, "c"), None, "the oldest leaf");
        assert_eq!(get(&mut tree, 10, "b"), Some(11));
        assert_eq!(get(&mut tree, 1, "a"), Some(10), "older, but not a leaf");
        check(&tree);
    }

    #[test]
    fn a_directory_is_in_one_place_only() {
        let mut tree = Tree::new(1 << 20);
        put(&mut tree, 1, "a", 10);
        put(&mut tree, 1, "b", 11);
        put(&mut tree, 10, "x", 12);
        put(&mut tree, 12, "y", 13);
        put(&mut tree, 11, "x", 12);
        assert_eq!(get(&mut tree, 10, "x"), None);
        assert_eq!(get(&mut tree, 11, "x"), Some(12));
        assert_eq!(get(&mut tree, 12, "y"), None, "what was beneath is looked for anew");
        put(&mut tree, 11, "x", 14);
        assert_eq!((get(&mut tree, 11, "x"), tree.contains(Ino(12))), (Some(14), false));
        assert_eq!(put(&mut tree, 99, "z", 15), 0);
        assert!(!tree.contains(Ino(15)), "beneath a directory that is not there");
        check(&tree);
    }

    #[test]
    fn any_sequence_leaves_it_whole() {
        let mut draw = fastrand::Rng::with_seed(7);
        let mut tree = Tree::new(12 * weight(&called("aa")));
        let mut names: BTreeMap<(u64, String), u64> = BTreeMap::new();
        for _ in 0..20_000 {
            let dir = if draw.u64(..3) == 0 { 1 } else { 2 + draw.u64(..30) };
            let name = format!("n{}", draw.u64(..9));
            match draw.u64(..8) {
                0 => {
                    tree.remove(Ino(2 + draw.u64(..30)));
                }
                1 if draw.u64(..200) == 0 => {
                    tree.clear();
                }
                2..=4 => {
                    let found = get(&mut tree, dir, &name);
                    assert!(found.is_none() || found == names.get(&(dir, name)).copied());
                }
                _ => {
                    let ino = 2 + draw.u64(..30);
                    if ino != dir && !is_above(&tree, ino, dir) {
                        names.insert((dir, name.clone()), ino);
                        put(&mut tree, dir, &name, ino);
                    }
                }
            }
            check(&tree);
        }
    }

    fn is_above(tree: &Tree, upper: u64, lower: u64) -> bool {
        let mut at = tree.places.get(&Ino(lower)).copied();
        while let Some(place) = at {
            let node = &tree.nodes[place as usize];
            if node.access.is_some_and(|access| access.dir.ino == Ino(upper)) {
                return true;
            }
            at = (place != ROOT).then_some(node.parent);
        }
        false
    }
}
