//! The first 64 KiB: what this memory is, and what each chunk has.
//!
//! ```text
//! word 0 magic | 1 format | 2 state: 1 kept, 2 not any more | 3 generation | 4, 5 volume
//! word 1,024 and on: of each chunk the area; 0 if there is none
//! ```

use std::fmt;
use std::io;

use crate::memory::{Memory, NoRoom};

/// Length of the header, words.
pub(crate) const WORDS: usize = 8192;
const MAGIC: u64 = u64::from_le_bytes(*b"pandoM01");
/// Major number in the upper half, minor number in the lower one.
const FORMAT: u64 = 1 << 32;
const KEPT: u64 = 1;
const UNKEPT: u64 = 2;

const AT_MAGIC: usize = 0;
const AT_FORMAT: usize = 1;
const AT_STATE: usize = 2;
const AT_GENERATION: usize = 3;
const AT_VOLUME: usize = 4;
const AT_CHUNKS: usize = 1024;
/// Largest number of chunks: 4 GiB with chunks of 4 MiB.
pub(crate) const CHUNKS_MAX: usize = 1024;

/// Whose memory it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The volume that is mounted.
    pub volume: u128,
    /// How often the mount was taken over.
    pub generation: u64,
}

/// Why a memory is refused as a whole. The mount cannot be taken over then.
#[derive(Debug)]
pub enum Refused {
    /// It cannot be read or mapped.
    Io(io::Error),
    /// It is no memory of a mount.
    NotOne,
    /// It has a format that this program does not know.
    Format(u64),
    /// It is that of another volume.
    Volume(u128),
    /// It was taken over as often already, or more often.
    Generation(u64),
    /// Its writer had no room for all records.
    Unkept,
    /// Its header has what no writer stores; with what that is.
    Damaged(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the mount cannot be taken over, so mount anew: ")?;
        match self {
            Self::Io(error) => write!(to, "its records cannot be mapped: {error}"),
            Self::NotOne => to.write_str("what the keeper holds are no records of a mount"),
            Self::Format(format) => {
                let (major, minor) = (format >> 32, format & 0xffff_ffff);
                write!(to, "its records have format {major}.{minor}, which this program lacks")
            }
            Self::Volume(volume) => write!(to, "its records are of another volume, {volume:032x}"),
            Self::Generation(number) => write!(to, "it was taken over {number} times already"),
            Self::Unkept => to.write_str("there was no room for all of its records"),
            Self::Damaged(what) => write!(to, "its records are damaged: {what}"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Makes a new memory.
pub(crate) fn create<M: Memory>(memory: &mut M, identity: Identity) -> Result<(), NoRoom> {
    memory.reach(WORDS).map_err(NoRoom)?;
    let volume = identity.volume;
    memory.store(AT_FORMAT, FORMAT);
    memory.store(AT_STATE, KEPT);
    memory.store(AT_GENERATION, identity.generation);
    memory.store(AT_VOLUME, volume as u64);
    memory.store(AT_VOLUME + 1, (volume >> 64) as u64);
    memory.store(AT_MAGIC, MAGIC);
    Ok(())
}

/// Judges the memory of a predecessor, and makes it that of `identity`. Returns the area of each
/// chunk.
pub(crate) fn adopt<M: Memory>(memory: &mut M, identity: Identity) -> Result<Vec<u64>, Refused> {
    if memory.len() < WORDS || memory.load(AT_MAGIC) != MAGIC {
        return Err(Refused::NotOne);
    }
    let format = memory.load(AT_FORMAT);
    if format >> 32 != FORMAT >> 32 {
        return Err(Refused::Format(format));
    }
    let half = |at| u128::from(memory.load(at));
    let volume = half(AT_VOLUME) | half(AT_VOLUME + 1) << 64;
    if volume != identity.volume {
        return Err(Refused::Volume(volume));
    }
    let generation = memory.load(AT_GENERATION);
    if generation >= identity.generation {
        return Err(Refused::Generation(generation));
    }
    match memory.load(AT_STATE) {
        KEPT => {}
        UNKEPT => return Err(Refused::Unkept),
        _ => return Err(Refused::Damaged("a state that there is not")),
    }
    let chunks = chunks(memory)?;
    memory.store(AT_GENERATION, identity.generation);
    Ok(chunks)
}

/// Areas of the chunks. After the last one all words are 0.
fn chunks<M: Memory>(memory: &M) -> Result<Vec<u64>, Refused> {
    let mut areas: Vec<_> = (0..CHUNKS_MAX).map(|n| memory.load(AT_CHUNKS + n)).collect();
    let count = areas.iter().take_while(|&&area| area != 0).count();
    if areas[count..].iter().any(|&area| area != 0) {
        return Err(Refused::Damaged("a chunk after the last one"));
    }
    if memory.len() < start::<M>(count) {
        return Err(Refused::Damaged("a chunk beyond the end"));
    }
    areas.truncate(count);
    Ok(areas)
}

/// Where a chunk begins.
pub(crate) const fn start<M: Memory>(chunk: usize) -> usize {
    WORDS + chunk * M::CHUNK
}

/// Gives an area a new chunk.
pub(crate) fn name_chunk<M: Memory>(memory: &mut M, chunk: usize, area: u64) -> Result<(), NoRoom> {
    if chunk >= CHUNKS_MAX {
        return Err(NoRoom(io::ErrorKind::StorageFull.into()));
    }
    memory.reach(start::<M>(chunk + 1)).map_err(NoRoom)?;
    if !is_planted!(ChunkUnnamed) {
        memory.store(AT_CHUNKS + chunk, area);
    }
    Ok(())
}

/// From now on no successor can go on: not all is in the memory.
pub(crate) fn give_up<M: Memory>(memory: &mut M) {
    memory.store(AT_STATE, UNKEPT);
}

/// Whether all is in the memory.
pub(crate) fn is_kept<M: Memory>(memory: &M) -> bool {
    memory.load(AT_STATE) == KEPT
}
