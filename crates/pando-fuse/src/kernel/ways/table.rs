//! What the kernel was told of directories, node by node.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use pando_client::{Applied, Recent};
use pando_types::{Attr, Credentials, Ino, Name, News, Search, Trail};

/// The root's node.
const ROOT: u64 = Ino::ROOT.0;
/// Node numbers from here on are no inos: those begin with a shard's number, and there are fewer shards.
const EXTRA: u64 = 0xFFFF << 48;

/// A name in a directory, by the kernel's number.
pub(super) type Place = (u64, Name);

/// See the module.
#[derive(Default)]
pub(super) struct Table(Mutex<State>);

#[derive(Default)]
struct State {
    nodes: HashMap<u64, Node, RandomState>,
    /// The newest node of each directory: the only one that may be sure.
    of_ino: HashMap<Ino, u64, RandomState>,
    /// What the kernel has, or had, under a name.
    of_place: HashMap<Place, u64, RandomState>,
    recent: Recent,
    /// Of the root.
    search: Option<Search>,
    extras: u64,
}

/// A directory as the kernel knows it: at one place, unless the kernel itself moves it.
struct Node {
    ino: Ino,
    /// `None`: the kernel cannot come to it by a path.
    place: Option<Place>,
    /// Who might search it when it was read last.
    search: Search,
    /// It is at its place, with these permissions, up to the version that was heard of last.
    is_sure: bool,
    /// It is not sure, and the kernel has been told that its name leads elsewhere: no path leads to it.
    is_adrift: bool,
    lookups: u64,
}

/// A directory that may not be where the kernel takes it for, and the name that leads there.
pub(super) struct Doubtful {
    pub(super) node: u64,
    pub(super) place: Place,
}

/// The way from the root to one directory, or two.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// It is no directory that is known here.
    OfNoDirectory,
    /// It is what the kernel takes it for, and the caller may take it, as far as is known.
    Sure(Trail),
    /// One of these may not be so.
    Unsure,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// News will be of what is above this version.
    pub(super) fn begin(&self, version: u64) {
        let mut state = self.lock();
        // Some may have come already.
        if state.recent.version() < version {
            state.recent = Recent::new(version);
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.lock().recent.version()
    }

    /// Directories, the root apart.
    pub(super) fn len(&self) -> usize {
        self.lock().nodes.len()
    }

    pub(super) fn ino(&self, node: u64) -> Ino {
        self.lock().ino(node)
    }

    /// The way to these nodes, for `by`.
    pub(super) fn way(&self, nodes: impl Iterator<Item = u64>, by: &Credentials) -> Way {
        let state = self.lock();
        let mut dirs = Vec::new();
        for node in nodes {
            if node != ROOT && !state.nodes.contains_key(&node) {
                return Way::OfNoDirectory;
            }
            if !state.climb(node, by, &mut dirs) {
                return Way::Unsure;
            }
        }
        Way::Sure(Trail { version: state.recent.version(), dirs })
    }

    /// What is in doubt on the way to these nodes, from the root down; or who may search the directories there: the names in
    /// them tell that. `None`: the kernel has no way to one of them.
    pub(super) fn doubtful(&self, nodes: impl Iterator<Item = u64>) -> Option<Vec<Doubtful>> {
        let state = self.lock();
        let mut all = Vec::new();
        for node in nodes {
            let mut way = Vec::new();
            let mut at = node;
            while at != ROOT {
                let it = state.nodes.get(&at).filter(|it| !it.is_adrift)?;
                let place = it.place.clone()?;
                if way.len() >= Trail::DIRS_MAX {
                    return None;
                }
                let is_of_unknown = place.0 == ROOT && state.search.is_none();
                if !it.is_sure || is_of_unknown {
                    way.push(Doubtful { node: at, place: place.clone() });
                }
                at = place.0;
            }
            all.extend(way.into_iter().rev());
        }
        Some(all)
    }

    /// The names that lead from the root to a node, as the kernel has them, the last one first.
    pub(super) fn edges(&self, node: u64) -> Vec<Place> {
        let state = self.lock();
        let mut edges = Vec::new();
        let mut at = node;
        while let Some(place) = state.nodes.get(&at).and_then(|node| node.place.clone())
            && edges.len() < Trail::DIRS_MAX
        {
            at = place.0;
            edges.push(place);
        }
        edges
    }

    /// A lookup at a place has found a directory, of which a shard told that knew `version`, and also who may search the
    /// one that was asked in. The node for it, and whether it is sure.
    pub(super) fn found(
        &self,
        (parent, name): (u64, &Name),
        attr: &Attr,
        told: Option<Search>,
        version: u64,
    ) -> (u64, bool) {
        let mut state = self.lock();
        let place = (parent, name.clone());
        let known = state.of_ino.get(&attr.ino).copied();
        let is_there = |node: &u64| state.nodes[node].place.as_ref() == Some(&place);
        let had = state.of_place.get(&place).copied();
        let node = match known.filter(is_there) {
            Some(node) => node,
            None => {
                if let Some(elsewhere) = known {
                    state.supersede(elsewhere);
                }
                state.add(place.clone(), attr.ino)
            }
        };
        state.of_place.insert(place, node);
        if let Some(had) = had.filter(|had| *had != node) {
            state.cut_off(had);
        }
        state.read(node, attr, told, version);
        let Some(it) = state.nodes.get_mut(&node) else { return (node, false) };
        it.lookups += 1;
        (node, it.is_sure)
    }

    /// A directory was made. It is not sure before it is looked up: only that tells who may come through its parent.
    pub(super) fn made(&self, (parent, name): (u64, &Name), ino: Ino) -> u64 {
        let mut state = self.lock();
        if let Some(known) = state.of_ino.get(&ino).copied() {
            state.supersede(known);
        }
        let node = state.add((parent, name.clone()), ino);
        if let Some(it) = state.nodes.get_mut(&node) {
            it.lookups += 1;
        }
        node
    }

    /// Something about the way to a node was wrong.
    pub(super) fn doubt(&self, node: u64) {
        self.lock().supersede(node);
    }

    /// The kernel asked for a name and is told this node, or none: what it had there before it drops.
    pub(super) fn answered(&self, (parent, name): (u64, &Name), node: Option<u64>) {
        let mut state = self.lock();
        let place = (parent, name.clone());
        if let Some(had) = state.of_place.get(&place).copied().filter(|had| Some(*had) != node) {
            state.of_place.remove(&place);
            state.cut_off(had);
        }
    }

    /// Whether no path leads to any of these nodes any more that the kernel would not ask about.
    pub(super) fn is_adrift(&self, nodes: impl Iterator<Item = u64>) -> bool {
        let state = self.lock();
        let mut nodes = nodes.peekable();
        nodes.peek().is_some()
            && nodes.all(|node| {
                let mut at = node;
                let mut steps = 0;
                while let Some(node) = state.nodes.get(&at)
                    && steps < Trail::DIRS_MAX
                {
                    match &node.place {
                        _ if node.is_adrift => return true,
                        Some((parent, _)) => at = *parent,
                        None => return true,
                    }
                    steps += 1;
                }
                false
            })
    }

    /// A directory's attributes are these now. Who may search it is read from its entry, where it is known as of which version.
    pub(super) fn changed(&self, node: u64, attr: &Attr) {
        let mut state = self.lock();
        let search = search_of(attr);
        if node == ROOT {
            state.search = state.search.filter(|known| *known == search);
        } else if let Some(node) = state.nodes.get_mut(&node) {
            node.is_sure &= node.search == search;
        }
    }

    /// The kernel is about to move what it has at `from` to `to`, and the other way round, too. Which directories that are.
    pub(super) fn renamed(
        &self,
        from: (u64, &Name),
        to: (u64, &Name),
        is_exchange: bool,
    ) -> [Option<u64>; 2] {
        let mut state = self.lock();
        let [from, to] = [from, to].map(|(parent, name)| (parent, name.clone()));
        if from == to {
            return [None, None];
        }
        let (there, back) = (state.of_place.remove(&from), state.of_place.remove(&to));
        state.put(there, Some(to));
        state.put(back, is_exchange.then_some(from));
        [there, back.filter(|_| is_exchange)]
    }

    /// A node that was moved was looked for at its new place, and this was found.
    pub(super) fn confirm(
        &self,
        node: u64,
        (parent, name): (u64, &Name),
        attr: &Attr,
        told: Option<Search>,
        version: u64,
    ) {
        let mut state = self.lock();
        let place = (parent, name.clone());
        let is_it = |it: &Node| it.ino == attr.ino && it.place.as_ref() == Some(&place);
        if !state.nodes.get(&node).is_some_and(is_it) {
            return;
        }
        if let Some(other) = state.of_ino.insert(attr.ino, node).filter(|other| *other != node)
            && let Some(other) = state.nodes.get_mut(&other)
        {
            other.is_sure = false;
        }
        state.read(node, attr, told, version);
    }

    /// It is unknown where the kernel has a node.
    pub(super) fn abandon(&self, node: u64) {
        let mut state = self.lock();
        if let Some(place) = state.nodes.get(&node).and_then(|it| it.place.clone())
            && state.of_place.get(&place) == Some(&node)
        {
            state.of_place.remove(&place);
        }
        state.put(Some(node), None);
        state.of_ino.retain(|_, newest| *newest != node);
    }

    /// Takes news in.
    pub(super) fn hear(&self, news: &News) {
        let mut state = self.lock();
        let state = &mut *state;
        match state.recent.apply(news) {
            Applied::Known => {}
            Applied::All => {
                state.search = None;
                state.nodes.values_mut().for_each(|node| node.is_sure = false);
            }
            Applied::These(dirs) => {
                if dirs.contains(&Ino::ROOT) {
                    state.search = None;
                }
                let newest = |dir: &Ino| state.of_ino.get(dir).copied();
                let nodes: Vec<u64> = dirs.iter().filter_map(newest).collect();
                nodes.into_iter().for_each(|node| state.supersede(node));
            }
        }
    }

    /// The kernel forgets `count` lookups of a node; which inode that is.
    pub(super) fn forget(&self, node: u64, count: u64) -> Ino {
        let mut state = self.lock();
        let Some(it) = state.nodes.get_mut(&node) else { return Ino(node) };
        let ino = it.ino;
        it.lookups = it.lookups.saturating_sub(count);
        if it.lookups == 0 {
            let place = state.nodes.remove(&node).and_then(|it| it.place);
            if state.of_ino.get(&ino) == Some(&node) {
                state.of_ino.remove(&ino);
            }
            if let Some(place) = place
                && state.of_place.get(&place) == Some(&node)
            {
                state.of_place.remove(&place);
            }
        }
        ino
    }
}

impl State {
    fn ino(&self, node: u64) -> Ino {
        self.nodes.get(&node).map_or(Ino(node), |node| node.ino)
    }

    /// Adds all directories from a node to the root; false if one is in doubt, or `by` may not search one above the node.
    fn climb(&self, node: u64, by: &Credentials, dirs: &mut Vec<Ino>) -> bool {
        let mut at = node;
        loop {
            let ino = self.ino(at);
            let is_new = !dirs.contains(&ino);
            if is_new {
                dirs.push(ino);
            }
            if at == ROOT {
                return true;
            }
            let Some(Node { place: Some((parent, _)), is_sure: true, .. }) = self.nodes.get(&at)
            else {
                return false;
            };
            if dirs.len() > Trail::DIRS_MAX || !self.may_search(*parent, by) {
                return false;
            }
            at = *parent;
        }
    }

    fn may_search(&self, node: u64, by: &Credentials) -> bool {
        let search = match self.nodes.get(&node) {
            Some(node) => Some(node.search),
            None => self.search,
        };
        by.uid == 0 || search.is_some_and(|search| search.allows(by))
    }

    /// A new node for a directory: the newest.
    fn add(&mut self, place: Place, ino: Ino) -> u64 {
        let mut number = ino.0;
        if self.nodes.contains_key(&number) {
            self.extras += 1;
            number = EXTRA | self.extras;
        }
        let node = Node {
            ino,
            place: Some(place.clone()),
            search: Search::default(),
            is_sure: false,
            is_adrift: false,
            lookups: 0,
        };
        self.nodes.insert(number, node);
        self.of_ino.insert(ino, number);
        self.of_place.insert(place, number);
        number
    }

    /// A node is in doubt.
    fn supersede(&mut self, node: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.is_sure = false;
        }
    }

    /// The kernel has dropped the name that led to a node.
    fn cut_off(&mut self, node: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            (node.is_sure, node.is_adrift) = (false, true);
        }
    }

    /// What a shard told of the newest node of a directory, and of the one it is in.
    fn read(&mut self, node: u64, attr: &Attr, told: Option<Search>, version: u64) {
        let Some(place) = self.nodes.get(&node).and_then(|node| node.place.clone()) else { return };
        let dirs = [attr.ino, self.ino(place.0)];
        if !self.recent.still_holds(version, &dirs) {
            if let Some(node) = self.nodes.get_mut(&node) {
                node.is_sure = false;
            }
            return;
        }
        match self.nodes.get_mut(&place.0) {
            // A change of permissions of a directory without subdirectories has no version.
            Some(parent) if told.is_some_and(|told| told != parent.search) => {
                parent.is_sure = false;
            }
            None if place.0 == ROOT => self.search = told.or(self.search),
            _ => {}
        }
        if let Some(node) = self.nodes.get_mut(&node) {
            node.search = search_of(attr);
            (node.is_sure, node.is_adrift) = (true, false);
        }
    }

    /// What the kernel has of a node is at another place from now on.
    fn put(&mut self, node: Option<u64>, place: Option<Place>) {
        let Some(node) = node else { return };
        if let Some(it) = self.nodes.get_mut(&node) {
            (it.is_sure, it.is_adrift) = (false, false);
            it.place = place.clone();
        }
        if let Some(place) = place {
            self.of_place.insert(place, node);
        }
    }
}

const fn search_of(attr: &Attr) -> Search {
    Search::new(attr.mode, attr.uid, attr.gid)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
