//! The notes about one shard: where the next record goes, and which half is still needed.

use std::collections::BTreeSet;
use std::io;

use pando_types::lend::Element;
use pando_types::op::CHANGE_MAX;
use pando_types::{ShardIndex, TxnId};

use crate::journal::record::{HALF, HEAD, ToNote, head, write};

/// Bytes of the record of a grant that is over.
const OVER_MAX: usize = 32;
/// Bytes of a record at most, beside those of what was asked.
const RECORD_MAX: usize = CHANGE_MAX + 512;
/// Parts that are named at the beginning of a half. Of further ones others find out when they want
/// them.
const PARTS_MAX: usize = 4_096;

/// Bytes that outlive the process.
pub trait Storage: Send + Sync {
    /// Writes bytes at an offset below twice [`HALF`].
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Where a process keeps its journals.
pub trait Notebook: std::fmt::Debug + Send + Sync {
    /// Begins the journal about a shard. Its room is taken at once.
    fn open(&self, shard: ShardIndex) -> io::Result<Journal>;
    /// Notes that objects which elements name may not be durable, and never will be.
    fn objects_are_lost(&self) -> io::Result<()>;
    /// Removes the journals, of which nothing is needed any more.
    fn end(&self) -> io::Result<()>;
}

/// Which half has a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Half(usize);

/// The notes about one shard.
pub struct Journal {
    storage: Box<dyn Storage>,
    shard: ShardIndex,
    parts: BTreeSet<TxnId>,
    /// The half that is written, its number, and where the next record goes.
    now: usize,
    number: u64,
    at: usize,
    /// Elements in each half that are needed.
    needed: [u64; 2],
    buffer: Vec<u8>,
    /// Why nothing can be noted any more.
    failure: Option<io::Error>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal(half {} at {}, needed {:?})", self.now, self.at, self.needed)
    }
}

impl Journal {
    /// Begins notes about a shard.
    pub fn new(storage: Box<dyn Storage>, shard: ShardIndex) -> io::Result<Self> {
        let mut journal = Self {
            storage,
            shard,
            parts: BTreeSet::new(),
            now: 1,
            number: 0,
            at: HALF,
            needed: [0; 2],
            buffer: Vec::new(),
            failure: None,
        };
        journal.turn();
        match journal.failure.take() {
            None => Ok(journal),
            Some(error) => Err(error),
        }
    }

    /// Notes that a part is here.
    pub(crate) fn part(&mut self, grant: TxnId) {
        if self.parts.len() < PARTS_MAX && self.parts.insert(grant) && self.has_room() {
            self.note(&ToNote::Part(grant));
        }
    }

    /// Notes that a part is given back: later halves do not name it.
    pub(crate) fn part_ends(&mut self, grant: TxnId) {
        self.parts.remove(&grant);
    }

    /// Notes that a grant is over.
    pub(crate) fn over(&mut self, grant: TxnId) {
        self.parts.remove(&grant);
        // There is always room for as many of these as there may be parts.
        if self.at + OVER_MAX <= HALF {
            self.buffer.clear();
            write(&mut self.buffer, self.number, &ToNote::Over(grant));
            self.put();
        }
    }

    /// Whether there is room for another element. If not, those in the older half are still
    /// needed.
    pub(crate) fn has_room(&self) -> bool {
        self.failure.is_none() && (self.fits() || self.needed[1 - self.now] == 0)
    }

    /// Whether shards should soon make durable what they have, so that there is room.
    pub(crate) fn wants_room(&self) -> bool {
        self.needed[1 - self.now] > 0 && self.at > HALF / 4
    }

    /// Whether nothing can be noted any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.failure.is_some()
    }

    fn fits(&self) -> bool {
        self.at + RECORD_MAX + PARTS_MAX * OVER_MAX <= HALF
    }

    /// Notes an element, of which there is room for.
    pub(crate) fn element(&mut self, element: &Element) -> Half {
        self.note(&ToNote::Element(element));
        self.needed[self.now] += 1;
        Half(self.now)
    }

    /// An element is not needed any more.
    pub(crate) fn forget(&mut self, half: Half) {
        self.needed[half.0] = self.needed[half.0].saturating_sub(1);
    }

    fn note(&mut self, noted: &ToNote<'_>) {
        if !self.fits() {
            self.turn();
        }
        self.buffer.clear();
        write(&mut self.buffer, self.number, noted);
        self.put();
    }

    /// Goes on in the other half.
    fn turn(&mut self) {
        (self.now, self.number, self.at) = (1 - self.now, self.number + 1, 0);
        self.buffer.clear();
        self.buffer.extend_from_slice(&head(self.number, self.shard));
        for grant in &self.parts {
            write(&mut self.buffer, self.number, &ToNote::Part(*grant));
        }
        debug_assert!(self.buffer.len() >= HEAD && self.buffer.len() < HALF / 2);
        self.put();
    }

    fn put(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let offset = self.now * HALF + self.at;
        match self.storage.write(offset as u64, &self.buffer) {
            Ok(()) => self.at += self.buffer.len(),
            Err(error) => self.failure = Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pando_types::Ino;
    use pando_types::lend::{Act, Change};
    use parking_lot::Mutex;

    use super::*;
    use crate::journal::record::{Noted, read};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Storage for Memory {
        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            let (mut all, from) = (self.0.lock(), offset as usize);
            assert!(from / HALF == (from + bytes.len() - 1) / HALF, "beyond a half");
            let len = all.len().max(from + bytes.len());
            all.resize(len, 0);
            all[from..from + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }

    const SHARD: ShardIndex = ShardIndex(3);

    fn grant(number: u64) -> TxnId {
        TxnId { shard: SHARD, number }
    }

    fn element(number: u64, len: usize) -> Element {
        let change = Change { asked: vec![7; len], stamp: 1, ino: Ino(2), digest: 3, after: 0 };
        Element { grant: grant(1), number, act: Act::Change(change) }
    }

    fn numbers(memory: &Memory) -> Vec<u64> {
        let (shard, all) = read(&memory.0.lock()).unwrap().unwrap();
        assert_eq!(shard, SHARD);
        let of = |noted: Noted| match noted {
            Noted::Element(element) => Some(element.number),
            _ => None,
        };
        all.into_iter().filter_map(of).collect()
    }

    /// With any lengths, and whenever elements cease to be needed in their order: the notes have
    /// all that are needed, in order, after each step.
    #[test]
    fn all_that_is_needed_is_noted_in_order() {
        for seed in 0..20 {
            let (memory, mut random) = (Memory::default(), fastrand::Rng::with_seed(seed));
            let mut journal = Journal::new(Box::new(memory.clone()), SHARD).unwrap();
            journal.part(grant(1));
            let mut needed = std::collections::VecDeque::new();
            let (mut next, mut turns) = (1, 0);
            while turns < 6 {
                let number = journal.number;
                if journal.has_room() && random.u8(..) > 40 {
                    let half = journal.element(&element(next, random.usize(..CHANGE_MAX)));
                    needed.push_back((next, half));
                    next += 1;
                } else {
                    for (_, half) in needed.drain(..random.usize(..=needed.len())) {
                        journal.forget(half);
                    }
                }
                if journal.number > number {
                    turns += 1;
                    let found = numbers(&memory);
                    assert!(found.is_sorted_by(|a, b| a < b), "seed {seed}: {found:?}");
                    for (wanted, _) in &needed {
                        assert!(found.contains(wanted), "seed {seed}: {wanted} is missing");
                    }
                }
            }
            let found = read(&memory.0.lock()).unwrap().unwrap().1;
            assert!(found.contains(&Noted::Part(grant(1))), "each half names the parts");
        }
    }

    #[test]
    fn a_half_that_is_needed_is_not_written_over() {
        let memory = Memory::default();
        let mut journal = Journal::new(Box::new(memory.clone()), SHARD).unwrap();
        let mut halves = Vec::new();
        while journal.has_room() {
            halves.push(journal.element(&element(halves.len() as u64 + 1, CHANGE_MAX)));
        }
        assert!(journal.wants_room());
        assert_eq!(numbers(&memory).len(), halves.len());
        let first = halves[0];
        halves.iter().filter(|half| **half == first).for_each(|half| journal.forget(*half));
        assert!(journal.has_room());
    }

    #[test]
    fn a_record_that_is_cut_off_or_changed_ends_the_notes() {
        let memory = Memory::default();
        let mut journal = Journal::new(Box::new(memory.clone()), SHARD).unwrap();
        let mut ends = Vec::new();
        for number in 1..=3 {
            journal.element(&element(number, 100));
            ends.push(journal.at);
        }
        let whole = memory.0.lock().clone();
        for cut in 0..whole.len() {
            let left = read(&whole[..cut]).unwrap().map_or(0, |(_, all)| all.len());
            assert_eq!(left, ends.iter().filter(|end| **end <= cut).count(), "cut at {cut}");
        }
        for at in HEAD..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            let left = read(&bytes).unwrap().unwrap().1.len();
            assert_eq!(left, ends.iter().filter(|end| **end <= at).count(), "changed at {at}");
        }
    }
}
