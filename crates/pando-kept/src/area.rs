//! Records of one length, in the chunks of their area. Which ones are free is known to the process
//! only: a successor finds out by reading all.

use crate::header;
use crate::memory::{Memory, NoRoom};

/// What the header calls an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Nodes = 1,
    Texts = 2,
}

#[derive(Debug)]
pub(crate) struct Area {
    kind: Kind,
    /// Length of a record, words.
    record: usize,
    /// Where each chunk begins.
    chunks: Vec<usize>,
    free: Vec<u32>,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Nodes, Self::Texts];
}

impl Area {
    /// An area whose records have `record` words each, with those chunks that are of its kind. All
    /// records count as taken.
    pub(crate) fn new<M: Memory>(kind: Kind, record: usize, all: &[u64]) -> Self {
        let of_kind = |(_, area): &(usize, &u64)| **area == kind as u64;
        let chunks = all.iter().enumerate().filter(of_kind);
        let chunks = chunks.map(|(chunk, _)| header::start::<M>(chunk)).collect();
        Self { kind, record, chunks, free: Vec::new() }
    }

    const fn in_chunk<M: Memory>(&self) -> usize {
        M::CHUNK / self.record
    }

    /// How many records there are, free ones included.
    pub(crate) fn count<M: Memory>(&self) -> u32 {
        (self.chunks.len() * self.in_chunk::<M>()) as u32
    }

    /// Where a record begins. `record` has to be one that there is.
    pub(crate) fn place<M: Memory>(&self, record: u32) -> usize {
        let (record, in_chunk) = (record as usize, self.in_chunk::<M>());
        self.chunks[record / in_chunk] + record % in_chunk * self.record
    }

    /// Takes a free record. `chunks` is how many chunks all areas have.
    pub(crate) fn take<M: Memory>(
        &mut self,
        memory: &mut M,
        chunks: &mut usize,
    ) -> Result<u32, NoRoom> {
        if self.free.is_empty() {
            let first = self.count::<M>();
            header::name_chunk(memory, *chunks, self.kind as u64)?;
            self.chunks.push(header::start::<M>(*chunks));
            *chunks += 1;
            // The lowest is taken first, so that pages are touched one after the other.
            self.free.extend((first..self.count::<M>()).rev());
        }
        Ok(self.free.pop().expect("a chunk has records"))
    }

    /// Gives a record back, which does not count any more.
    pub(crate) fn give_back(&mut self, record: u32) {
        self.free.push(record);
    }
}
