//! The node records: writing them, and reading those of a predecessor.

use std::collections::HashMap;

use crate::area::{Area, Kind};
use crate::header::{self, Identity, Refused};
use crate::memory::{Memory, NoRoom};
use crate::record::{self, Node, Read};
use crate::text;

/// No node is written as often as that.
const VERSION_MAX: u64 = 1 << 48;

/// Number of a node's record. It changes when the record is written anew.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct At(u32);

/// Node records in a memory, of which this is the only writer.
#[derive(Debug)]
pub struct Nodes<M> {
    memory: M,
    chunks: usize,
    nodes: Area,
    texts: Area,
    /// Records of texts, of those nodes that have any.
    texts_of: HashMap<u32, Vec<u32>>,
}

/// What a predecessor has left.
#[derive(Debug)]
pub struct Found {
    /// Its nodes, in no order.
    pub nodes: Vec<(At, Node)>,
    /// How many records were no nodes that there can be. They are freed.
    pub damaged: usize,
}

/// A record that counts, if no other one of its node does.
struct Candidate {
    record: u32,
    version: u64,
    node: Node,
    texts: Vec<u32>,
}

impl<M: Memory> Nodes<M> {
    /// Makes a new memory, without nodes. Fails if there is no room for it.
    pub fn create(mut memory: M, identity: Identity) -> Result<Self, NoRoom> {
        header::create(&mut memory, identity)?;
        Ok(Self::with(memory, &[]))
    }

    /// Takes over the memory of a predecessor. Of each node the newest record counts. Those that
    /// are half-made, older or damaged are freed.
    pub fn adopt(mut memory: M, identity: Identity) -> Result<(Self, Found), Refused> {
        let chunks = header::adopt(&mut memory, identity)?;
        if chunks.iter().any(|&chunk| Kind::ALL.iter().all(|&kind| kind as u64 != chunk)) {
            return Err(Refused::Damaged("a chunk of an area that there is not"));
        }
        let mut this = Self::with(memory, &chunks);
        let found = this.scan();
        Ok((this, found))
    }

    fn with(memory: M, chunks: &[u64]) -> Self {
        Self {
            memory,
            chunks: chunks.len(),
            nodes: Area::new::<M>(Kind::Nodes, record::WORDS, chunks),
            texts: Area::new::<M>(Kind::Texts, text::WORDS, chunks),
            texts_of: HashMap::new(),
        }
    }

    /// Writes a node. `old` is its record so far, which is freed once the new one counts. Fails if
    /// there is no room: the memory says then that the mount is not kept, and is of no more use.
    ///
    /// # Panics
    ///
    /// If the node cannot be: without a number, of no type, or with parts that are too long.
    pub fn put(&mut self, old: Option<At>, node: &Node) -> Result<At, NoRoom> {
        assert!(node.is_sound(), "a node that cannot be is noted: {node:?}");
        match self.write(old, node) {
            Ok(at) => Ok(at),
            Err(error) => {
                header::give_up(&mut self.memory);
                Err(error)
            }
        }
    }

    fn write(&mut self, old: Option<At>, node: &Node) -> Result<At, NoRoom> {
        let version = old.map_or(0, |At(old)| self.words(old)[1] + 1);
        let record = self.nodes.take(&mut self.memory, &mut self.chunks)?;
        let mut texts = Vec::new();
        if node.has_text() {
            let bytes = [&node.name[..], &node.rest].concat();
            let (memory, chunks) = (&mut self.memory, &mut self.chunks);
            texts = text::store(memory, &mut self.texts, chunks, node.ino, &bytes)?;
        }
        if let Some(old) = old.filter(|_| is_planted!(OldFreedFirst)) {
            self.free(old);
        }
        let words = node.to_words(version, texts.first().copied());
        let at = self.nodes.place::<M>(record);
        if is_planted!(WordFirst) {
            self.memory.store(at + record::AT_INO, node.ino);
        }
        for (n, &word) in words.iter().enumerate().filter(|(n, _)| *n != record::AT_INO) {
            self.memory.store(at + n, word);
        }
        self.memory.store(at + record::AT_INO, node.ino);
        if !texts.is_empty() {
            self.texts_of.insert(record, texts);
        }
        if let Some(old) = old.filter(|_| !is_planted!(OldFreedFirst)) {
            self.free(old);
        }
        Ok(At(record))
    }

    /// Forgets a node.
    pub fn free(&mut self, at: At) {
        let place = self.nodes.place::<M>(at.0) + record::AT_INO;
        self.memory.store(place, 0);
        self.nodes.give_back(at.0);
        for text in self.texts_of.remove(&at.0).unwrap_or_default() {
            self.texts.give_back(text);
        }
    }

    /// Changes a word of the file system's own: number 0 or 1.
    pub fn set_own(&mut self, at: At, number: usize, word: u64) {
        assert!(number < 2, "a node has two words of its own");
        let place = self.nodes.place::<M>(at.0) + record::own(number);
        self.memory.store(place, word);
    }

    /// Whether a successor can go on with this memory.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        header::is_kept(&self.memory)
    }

    /// The memory.
    #[must_use]
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    fn words(&self, record: u32) -> [u64; record::WORDS] {
        let at = self.nodes.place::<M>(record);
        std::array::from_fn(|n| self.memory.load(at + n))
    }

    /// Reads all records. Frees those that do not count.
    fn scan(&mut self) -> Found {
        let mut newest: HashMap<u64, Candidate> = HashMap::new();
        let (mut damaged, mut freed) = (0, Vec::new());
        // From the end, so that the lowest free record is taken first.
        for record in (0..self.nodes.count::<M>()).rev() {
            if self.memory.load(self.nodes.place::<M>(record) + record::AT_INO) == 0 {
                self.nodes.give_back(record);
                continue;
            }
            let Some(candidate) = self.candidate(record) else {
                damaged += 1;
                freed.push(record);
                continue;
            };
            let ino = candidate.node.ino;
            let other = newest.get(&ino);
            let is_newer = other.is_none_or(|other| candidate.version > other.version);
            let loser = if is_newer { newest.insert(ino, candidate) } else { Some(candidate) };
            freed.extend(loser.map(|loser| loser.record));
        }
        for record in freed {
            self.free(At(record));
        }
        Found { nodes: self.settle(newest), damaged }
    }

    /// The node that a record has.
    fn candidate(&self, record: u32) -> Option<Candidate> {
        let Read { mut node, version, text, name_len } = Read::from_words(&self.words(record))?;
        if version > VERSION_MAX {
            return None;
        }
        let mut texts = Vec::new();
        if let Some(first) = text {
            let (mut bytes, records) = text::load(&self.memory, &self.texts, node.ino, first)?;
            node.rest = (name_len <= bytes.len()).then(|| bytes.split_off(name_len))?;
            node.name = bytes;
            texts = records;
        }
        node.is_sound().then_some(Candidate { record, version, node, texts })
    }

    /// Takes in the nodes that count, and frees all texts that none of them has.
    fn settle(&mut self, newest: HashMap<u64, Candidate>) -> Vec<(At, Node)> {
        let mut is_taken = vec![false; self.texts.count::<M>() as usize];
        let mut nodes = Vec::new();
        for Candidate { record, node, texts, .. } in newest.into_values() {
            texts.iter().for_each(|&text| is_taken[text as usize] = true);
            if !texts.is_empty() {
                self.texts_of.insert(record, texts);
            }
            nodes.push((At(record), node));
        }
        for text in (0..self.texts.count::<M>()).rev() {
            if !is_taken[text as usize] {
                self.texts.give_back(text);
            }
        }
        nodes
    }
}
