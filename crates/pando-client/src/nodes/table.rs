//! The node table: the place of each inode that a caller may name by ino.
//!
//! A directory's place is its [`DirRef`], fixed at birth. A file's place is a name or its link
//! shard, and may change at any time. The table follows the moves that this client makes itself.
//! The client finds out about others when it asks.
//!
//! Invariants:
//! 1. The root is always in the table.
//! 2. A node is dropped with its last lookup and its last open.
//! 3. A move of this client sets a file's place. The answer to an earlier request does not
//!    overwrite it, as that answer may be older ([`Stamp`]).
//! 4. The answer to a move may itself be late, and the file long back where it was. So that place
//!    is tried last.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use pando_types::op::{FileAt, FileRef};
use pando_types::{DirRef, Errno, Ino, SessionId};
use parking_lot::Mutex;

const SHARDS: usize = 64;

/// The place of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Spot {
    Dir(DirRef),
    File(FileAt),
}

/// Number of moves that this client had made when it sent a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp(u64);

#[derive(Debug)]
struct Node {
    spot: Spot,
    /// This client's move that brought the file here, if one did.
    moved: Stamp,
    /// The name that this move has overwritten.
    before: Option<Box<FileAt>>,
    /// Lookups not yet forgotten.
    lookups: u64,
    /// Opens not yet released.
    opens: u32,
    /// The session in which the shards count opens, and how many. After a session has ended, one
    /// suffices for all opens here.
    held: (SessionId, u32),
}

impl Node {
    fn hold(&mut self, session: SessionId) {
        if self.held.0 != session {
            self.held = (session, 0);
        }
        self.held.1 += 1;
    }

    /// Uncounts one open if the shards count more than there are. Returns its session.
    fn take_excess(&mut self) -> Option<SessionId> {
        (self.held.1 > self.opens).then(|| {
            self.held.1 -= 1;
            self.held.0
        })
    }
}

/// All nodes. Neighbouring inos are in different shards of the table.
pub(crate) struct Nodes {
    shards: [Shard; SHARDS],
    /// Number of this client's finished moves.
    moves: AtomicU64,
}

/// A part of the table, on cache lines of its own.
#[repr(align(128))]
struct Shard(Mutex<HashMap<Ino, Node, FixedState>>);

impl Nodes {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Shard(Mutex::default())), moves: AtomicU64::new(0) }
    }

    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Node, FixedState>> {
        &self.shards[(ino.0 % SHARDS as u64) as usize].0
    }

    /// The present stamp. Take it before the request; [`Nodes::look_up`] needs it with the answer.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.moves.load(Ordering::Acquire))
    }

    /// The place of `ino`; `ESTALE` if it is not in the table.
    pub(crate) fn find(&self, ino: Ino) -> Result<Spot, Errno> {
        if let Some(node) = self.shard(ino).lock().get(&ino) {
            return Ok(node.spot.clone());
        }
        if ino == Ino::ROOT { Ok(Spot::Dir(DirRef::ROOT)) } else { Err(Errno::ESTALE) }
    }

    /// The directory `ino`; `ENOTDIR` if it is something else, `ESTALE` if it is not in the table.
    pub(crate) fn dir(&self, ino: Ino) -> Result<DirRef, Errno> {
        if ino == Ino::ROOT {
            return Ok(DirRef::ROOT);
        }
        match self.shard(ino).lock().get(&ino).map(|node| &node.spot) {
            Some(Spot::Dir(dir)) => Ok(*dir),
            Some(Spot::File(_)) => Err(Errno::ENOTDIR),
            None => Err(Errno::ESTALE),
        }
    }

    /// Counts one more lookup of `ino`. It was found at `spot` by a request sent at `asked`.
    pub(crate) fn look_up(&self, ino: Ino, spot: Spot, asked: Stamp) {
        self.put(ino, spot, asked, |node| node.lookups += 1);
    }

    /// Counts `lookups` more lookups of `ino` and one more open. It was found at `spot` by a
    /// request sent at `asked`. The shards count that open in session `held`, if there is one.
    pub(crate) fn open(
        &self,
        ino: Ino,
        spot: Spot,
        asked: Stamp,
        held: Option<SessionId>,
        lookups: u64,
    ) {
        self.put(ino, spot, asked, |node| {
            node.lookups += lookups;
            node.opens += 1;
            if let Some(session) = held {
                node.hold(session);
            }
        });
    }

    /// Counts one more open of a file, of which its shard has not been told. False if `ino` is not
    /// in the table at this place: the answer to a request may be older than that.
    pub(crate) fn open_untold(&self, ino: Ino, at: &FileAt) -> bool {
        let mut nodes = self.shard(ino).lock();
        let node =
            nodes.get_mut(&ino).filter(|node| matches!(&node.spot, Spot::File(it) if it == at));
        node.map(|node| node.opens += 1).is_some()
    }

    /// Notes that the shards count one more open in `session`. False if `ino` is not in the table.
    pub(crate) fn held(&self, ino: Ino, session: SessionId) -> bool {
        let mut nodes = self.shard(ino).lock();
        nodes.get_mut(&ino).map(|node| node.hold(session)).is_some()
    }

    /// Whether a file is open here.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|node| node.opens > 0)
    }

    /// Whether the shards count an inode as open in `session`.
    pub(crate) fn is_held(&self, ino: Ino, session: SessionId) -> bool {
        let nodes = self.shard(ino).lock();
        nodes.get(&ino).is_some_and(|node| node.held.0 == session && node.held.1 > 0)
    }

    /// Uncounts one open if the shards count more than there are. Returns its session.
    pub(crate) fn take_excess(&self, ino: Ino) -> Option<SessionId> {
        let mut nodes = self.shard(ino).lock();
        nodes.get_mut(&ino)?.take_excess()
    }

    /// The files at the place `at`. Looks at the whole table.
    pub(crate) fn files_at(&self, at: &FileAt) -> Vec<Ino> {
        let mut inos = Vec::new();
        for shard in &self.shards {
            let nodes = shard.0.lock();
            let is_there = |node: &Node| matches!(&node.spot, Spot::File(it) if it == at);
            inos.extend(nodes.iter().filter(|(_, node)| is_there(node)).map(|(ino, _)| *ino));
        }
        inos.sort_unstable();
        inos
    }

    /// Inodes that are open here, but that the shards do not count as open in `session`.
    pub(crate) fn not_held(&self, session: SessionId) -> Vec<Ino> {
        let mut inos = Vec::new();
        for shard in &self.shards {
            let nodes = shard.0.lock();
            let lost = |node: &Node| node.opens > 0 && (node.held.0 != session || node.held.1 == 0);
            inos.extend(nodes.iter().filter(|(_, node)| lost(node)).map(|(ino, _)| *ino));
        }
        inos.sort_unstable();
        inos
    }

    /// Files that are open.
    pub(crate) fn open_files(&self) -> Vec<FileRef> {
        let mut files = Vec::new();
        for shard in &self.shards {
            let nodes = shard.0.lock();
            files.extend(nodes.iter().filter(|(_, node)| node.opens > 0).filter_map(
                |(ino, node)| match &node.spot {
                    Spot::File(at) => Some(FileRef { ino: *ino, at: at.clone() }),
                    Spot::Dir(_) => None,
                },
            ));
        }
        // Sorted, since hash tables have no order and a simulator needs one.
        files.sort_unstable_by_key(|file| file.ino);
        files
    }

    /// Notes the place of `ino` without a lookup.
    pub(crate) fn remember(&self, ino: Ino, spot: Spot, asked: Stamp) {
        self.put(ino, spot, asked, |_| ());
    }

    fn put(&self, ino: Ino, spot: Spot, asked: Stamp, count: impl FnOnce(&mut Node)) {
        let mut nodes = self.shard(ino).lock();
        match nodes.get_mut(&ino) {
            Some(node) => {
                if node.moved <= asked {
                    node.spot = spot;
                }
                count(node);
            }
            None => {
                let held = (SessionId(0), 0);
                let mut node =
                    Node { spot, moved: Stamp(0), before: None, lookups: 0, opens: 0, held };
                count(&mut node);
                nodes.insert(ino, node);
            }
        }
    }

    /// Forgets `count` lookups of `ino`.
    pub(crate) fn forget(&self, ino: Ino, count: u64) {
        self.drop_if_unused(ino, |node| node.lookups = node.lookups.saturating_sub(count));
    }

    /// Notes that one open of a file is released. Returns also the session of an open that is now
    /// [in excess](Nodes::take_excess). The pin keeps the node until the shards have been told.
    pub(crate) fn close(
        &self,
        ino: Ino,
    ) -> Result<(FileRef, Option<SessionId>, Pinned<'_>), Errno> {
        let mut nodes = self.shard(ino).lock();
        let node = nodes.get_mut(&ino).ok_or(Errno::ESTALE)?;
        let Spot::File(at) = node.spot.clone() else { return Err(Errno::EISDIR) };
        node.opens = node.opens.saturating_sub(1);
        node.lookups += 1;
        Ok((FileRef { ino, at }, node.take_excess(), Pinned { nodes: self, ino }))
    }

    fn drop_if_unused(&self, ino: Ino, change: impl FnOnce(&mut Node)) {
        let mut nodes = self.shard(ino).lock();
        if let Some(node) = nodes.get_mut(&ino) {
            change(node);
            if node.lookups == 0 && node.opens == 0 {
                nodes.remove(&ino);
            }
        }
    }

    /// Notes that the file `ino` is not at `was`. Its place is then the link shard, unless it has
    /// moved meanwhile.
    pub(crate) fn not_at(&self, ino: Ino, was: &FileAt) {
        if let Some(node) = self.shard(ino).lock().get_mut(&ino)
            && matches!(&node.spot, Spot::File(at) if at == was)
        {
            node.spot = Spot::File(FileAt::Link);
        }
    }

    /// Notes that the file `ino` was at `at`, by the answer to a request sent at `asked`.
    pub(crate) fn found_at(&self, ino: Ino, at: FileAt, asked: Stamp) {
        if let Some(node) = self.shard(ino).lock().get_mut(&ino)
            && node.moved <= asked
        {
            node.spot = Spot::File(at);
        }
    }

    /// Notes that this client moved the file `ino` to `at`.
    pub(crate) fn moved(&self, ino: Ino, at: FileAt) {
        let mut nodes = self.shard(ino).lock();
        let stamp = Stamp(self.moves.fetch_add(1, Ordering::AcqRel) + 1);
        if let Some(node) = nodes.get_mut(&ino) {
            if let Spot::File(was @ FileAt::Name(..)) = &node.spot
                && *was != at
            {
                node.before = Some(Box::new(was.clone()));
            }
            node.spot = Spot::File(at);
            node.moved = stamp;
        }
    }

    /// Takes the name of the file `ino` before this client's last move of it (invariant 4).
    pub(crate) fn take_before(&self, ino: Ino) -> Option<FileAt> {
        let mut nodes = self.shard(ino).lock();
        nodes.get_mut(&ino)?.before.take().map(|before| *before)
    }

    /// Inos of all nodes, the root apart.
    pub(crate) fn inos(&self) -> Vec<Ino> {
        let of_shard = |shard: &Shard| shard.0.lock().keys().copied().collect::<Vec<_>>();
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// Number of nodes, the root apart.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }
}

/// Keeps a node in the table.
pub(crate) struct Pinned<'a> {
    nodes: &'a Nodes,
    ino: Ino,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.nodes.forget(self.ino, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::Name;

    const INO: Ino = Ino(77);

    fn at(name: &str) -> FileAt {
        FileAt::Name(DirRef::ROOT, Name::new(name.as_bytes()).expect("valid"))
    }

    #[test]
    fn a_node_lives_as_long_as_its_lookups_and_opens() {
        let nodes = Nodes::new();
        assert_eq!(nodes.find(INO), Err(Errno::ESTALE));
        nodes.look_up(INO, Spot::File(at("a")), nodes.stamp());
        nodes.look_up(INO, Spot::File(at("a")), nodes.stamp());
        nodes.open(INO, Spot::File(at("a")), nodes.stamp(), Some(SessionId(1)), 0);
        nodes.forget(INO, 2);
        assert_eq!(nodes.find(INO), Ok(Spot::File(at("a"))));
        let (_, excess, pinned) = nodes.close(INO).expect("open");
        assert_eq!(excess, Some(SessionId(1)));
        assert_eq!(nodes.find(INO), Ok(Spot::File(at("a"))));
        drop(pinned);
        assert_eq!(nodes.find(INO), Err(Errno::ESTALE));
        assert_eq!(nodes.len(), 0);
    }

    #[test]
    fn what_counts_at_the_shards_is_brought_down_to_what_is_open() {
        let nodes = Nodes::new();
        let spot = || Spot::File(at("a"));
        let (old, new) = (SessionId(1), SessionId(2));
        nodes.open(INO, spot(), nodes.stamp(), Some(old), 0);
        nodes.open(INO, spot(), nodes.stamp(), Some(old), 0);
        assert!(nodes.held(INO, new), "one for both");
        assert_eq!(nodes.take_excess(INO), None);
        let (_, excess, first) = nodes.close(INO).expect("open");
        assert_eq!(excess, None);
        let (_, excess, second) = nodes.close(INO).expect("open");
        assert_eq!(excess, Some(new));
        assert_eq!(nodes.take_excess(INO), None);
        drop((first, second));
        assert!(!nodes.held(INO, new), "nobody knows it");
    }

    #[test]
    fn the_root_is_always_there() {
        let nodes = Nodes::new();
        nodes.forget(Ino::ROOT, 9);
        assert_eq!(nodes.dir(Ino::ROOT), Ok(DirRef::ROOT));
        assert_eq!(nodes.find(Ino::ROOT), Ok(Spot::Dir(DirRef::ROOT)));
    }

    #[test]
    fn an_answer_from_before_a_move_does_not_undo_it() {
        let nodes = Nodes::new();
        nodes.look_up(INO, Spot::File(at("a")), nodes.stamp());
        let before = nodes.stamp();
        nodes.moved(INO, at("b"));
        nodes.look_up(INO, Spot::File(at("a")), before);
        assert_eq!(nodes.find(INO), Ok(Spot::File(at("b"))));
        nodes.look_up(INO, Spot::File(at("c")), nodes.stamp());
        assert_eq!(nodes.find(INO), Ok(Spot::File(at("c"))));
    }

    #[test]
    fn the_name_before_our_last_move_is_told_once() {
        let nodes = Nodes::new();
        nodes.look_up(INO, Spot::File(at("a")), nodes.stamp());
        assert_eq!(nodes.take_before(INO), None);
        nodes.moved(INO, at("a"));
        assert_eq!(nodes.take_before(INO), None, "it has not moved");
        nodes.moved(INO, at("b"));
        nodes.moved(INO, at("c"));
        assert_eq!(nodes.take_before(INO), Some(at("b")));
        assert_eq!(nodes.take_before(INO), None);
    }

    #[test]
    fn a_miss_leads_to_the_link_shard_unless_the_file_moved_meanwhile() {
        let nodes = Nodes::new();
        nodes.look_up(INO, Spot::File(at("a")), nodes.stamp());
        nodes.moved(INO, at("b"));
        nodes.not_at(INO, &at("a"));
        assert_eq!(nodes.find(INO), Ok(Spot::File(at("b"))));
        nodes.not_at(INO, &at("b"));
        assert_eq!(nodes.find(INO), Ok(Spot::File(FileAt::Link)));
    }
}
