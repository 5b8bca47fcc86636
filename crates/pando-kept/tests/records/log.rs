//! A memory that notes each store, and nodes to put into it.

use std::collections::BTreeMap;
use std::io;

use pando_kept::{Found, Identity, Memory, Node};

/// What a writer did.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Store(usize, u64),
    Reach(usize),
}

#[derive(Clone, Debug)]
pub struct Log {
    pub words: Vec<u64>,
    pub events: Vec<Event>,
    /// More words there cannot be.
    pub limit: usize,
}

impl Log {
    pub const fn new() -> Self {
        Self { words: Vec::new(), events: Vec::new(), limit: usize::MAX }
    }

    /// Does what a writer did.
    pub fn repeat(&mut self, event: Event) {
        match event {
            Event::Store(at, word) => self.words[at] = word,
            Event::Reach(words) => self.words.resize(words, 0),
        }
    }
}

impl Memory for Log {
    const CHUNK: usize = 512;

    fn len(&self) -> usize {
        self.words.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.words[at]
    }

    fn store(&mut self, at: usize, word: u64) {
        self.events.push(Event::Store(at, word));
        self.words[at] = word;
    }

    fn reach(&mut self, words: usize) -> io::Result<()> {
        if words > self.limit {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if words > self.words.len() {
            self.events.push(Event::Reach(words));
            self.words.resize(words, 0);
        }
        Ok(())
    }
}

/// The same mount, taken over so many times.
pub const fn identity(generation: u64) -> Identity {
    Identity { volume: 0x1234_5678_9abc_def0_0fed_cba9_8765_4321, generation }
}

/// Nodes by their numbers.
pub type Model = BTreeMap<u64, Node>;

pub fn model(found: &Found) -> Model {
    found.nodes.iter().map(|(_, node)| (node.ino, node.clone())).collect()
}

/// A node of any kind: its name may be long, and it may be a link with a long target.
pub fn any_node(random: &mut fastrand::Rng, ino: u64) -> Node {
    let mut bytes = |len: usize| (0..len).map(|_| random.u8(b'a'..=b'z')).collect::<Vec<_>>();
    let (short, long, target) = (bytes(44), bytes(255), bytes(4096));
    let name_len = random.usize(1..=44);
    let (mode, rest) = match random.u8(0..4) {
        0 => (0o040_755, Vec::new()),
        1 => (0o120_777, target[..random.usize(1..=700)].to_vec()),
        _ => (0o100_644, Vec::new()),
    };
    let name = if random.bool() { short[..name_len].to_vec() } else { long };
    let own = [random.u64(..), random.u64(..)];
    Node { ino, mode, uid: random.u32(..), gid: random.u32(..), dir: 1, name, rest, own }
}
