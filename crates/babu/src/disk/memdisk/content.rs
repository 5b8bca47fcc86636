//! The bytes of one file: what reads see, what survives a loss of power, and the changes between
//! the two.

use crate::types::mix::mix;

/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

#[derive(Default, Clone)]
pub(super) struct Content {
    pub(super) visible: Vec<u8>,
    pub(super) durable: Vec<u8>,
    unsynced: Vec<ContentChange>,
    /// Open handles. Without handles and without a name the content is removed.
    pub(super) handle_count: usize,
}

#[derive(Clone)]
pub(super) enum ContentChange {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
    Extend(u64),
}

/// Decides which sectors of lost writes survive nevertheless.
struct Sectors {
    seed: u64,
    drawn: u64,
}

impl Sectors {
    /// Makes the decisions from a number that was drawn for another purpose, so that a history
    /// replayed by its draws needs no more of them. With 0 no sector survives, and neither with
    /// half of all other numbers.
    fn new(drawn: u64) -> Option<Sectors> {
        let mut sectors = Sectors { seed: drawn, drawn: 0 };
        (drawn != 0 && sectors.toss()).then_some(sectors)
    }

    fn toss(&mut self) -> bool {
        self.drawn += 1;
        mix(u128::from(self.seed) << 64 | u128::from(self.drawn)) >> 63 == 1
    }
}

impl Content {
    pub(super) fn durable(bytes: &[u8]) -> Content {
        Content { visible: bytes.to_vec(), durable: bytes.to_vec(), ..Content::default() }
    }

    pub(super) fn change(&mut self, change: ContentChange) {
        change.apply(&mut self.visible, usize::MAX);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable, usize::MAX);
        }
    }

    pub(super) fn forget_unsynced(&mut self) {
        self.unsynced.clear();
    }

    pub(super) fn lose_power(&mut self, random: &mut dyn FnMut() -> u64) {
        let changes = std::mem::take(&mut self.unsynced);
        if !changes.is_empty() {
            let in_order = random().is_multiple_of(2);
            let kept = random() as usize % (changes.len() + 1);
            let drawn = random();
            let torn = drawn as usize % changes.len();
            let mut sectors = Sectors::new(drawn);
            for (position, change) in changes.iter().enumerate() {
                let survives = if in_order { position < kept } else { !random().is_multiple_of(4) };
                if position == torn {
                    change.apply(&mut self.durable, random() as usize % (change.bytes_count() + 1));
                } else if survives {
                    change.apply(&mut self.durable, usize::MAX);
                } else if let Some(sectors) = &mut sectors {
                    change.apply_some(&mut self.durable, sectors);
                }
            }
        }
        self.visible = self.durable.clone();
    }
}

impl ContentChange {
    fn bytes_count(&self) -> usize {
        match self {
            ContentChange::Write { bytes, .. } => bytes.len(),
            ContentChange::SetLen(_) | ContentChange::Extend(_) => 1,
        }
    }

    /// Applies the first `limit` bytes of a write. A change of length is applied whole, or not at
    /// all if `limit` is 0.
    fn apply(&self, to: &mut Vec<u8>, limit: usize) {
        match self {
            _ if limit == 0 => {}
            ContentChange::Write { offset, bytes } => {
                put(to, *offset, &bytes[..bytes.len().min(limit)]);
            }
            ContentChange::SetLen(len) => to.resize(*len as usize, 0),
            ContentChange::Extend(len) => {
                if to.len() < *len as usize {
                    to.resize(*len as usize, 0);
                }
            }
        }
    }

    /// Applies some sectors of a write, and nothing of a change of length.
    fn apply_some(&self, to: &mut Vec<u8>, sectors: &mut Sectors) {
        let ContentChange::Write { offset, bytes } = self else { return };
        let (mut offset, mut rest) = (*offset, &bytes[..]);
        while !rest.is_empty() {
            let count = (SECTOR_BYTES - offset % SECTOR_BYTES).min(rest.len() as u64);
            let (sector, behind) = rest.split_at(count as usize);
            if sectors.toss() {
                put(to, offset, sector);
            }
            offset += count;
            rest = behind;
        }
    }
}

fn put(to: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = offset as usize;
    if to.len() < start + bytes.len() {
        to.resize(start + bytes.len(), 0);
    }
    to[start..start + bytes.len()].copy_from_slice(bytes);
}
