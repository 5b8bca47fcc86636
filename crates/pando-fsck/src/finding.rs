//! Findings: what is wrong, the evidence for it, and what would mend it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use pando_core::Write;
use pando_core::record::{Entry, Record};
use pando_types::op::ObjectId;
use pando_types::peer::EntryValue;
use pando_types::{DirId, ShardIndex};

use crate::busy::Place;
use crate::code::Code;
use crate::cursor;
use crate::source::{Objects, Rows};

/// A violation of an invariant.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The invariant.
    pub code: Code,
    /// Shard of the row that is wrong or missing.
    pub shard: ShardIndex,
    /// What is concerned, in words: a directory, name, file or session.
    pub what: String,
    /// Path from the root, if it is known.
    pub path: Option<String>,
    /// What is there, and what should be.
    pub detail: String,
    pub(crate) repair: Option<Repair>,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) under: Vec<Place>,
    /// A name that is missing or superfluous. The count of its partition is wrong for that reason.
    pub(crate) name: Option<(DirId, u64)>,
    /// Orders of the partition with the wrong count.
    pub(crate) counted: Option<(DirId, Range<u64>)>,
    /// The place that the path is of.
    pub(crate) at: Option<At>,
}

/// A place that has a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Dir(DirId),
    Name(DirId, Vec<u8>),
}

impl Finding {
    pub(crate) fn new(code: Code, shard: ShardIndex, what: String, detail: String) -> Self {
        Self {
            code,
            shard,
            what,
            path: None,
            detail,
            repair: None,
            evidence: Vec::new(),
            under: Vec::new(),
            name: None,
            counted: None,
            at: None,
        }
    }

    pub(crate) fn at(mut self, at: At) -> Self {
        self.at = Some(at);
        self
    }

    pub(crate) fn known_by(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    pub(crate) fn under(mut self, place: Place) -> Self {
        self.under.push(place);
        self
    }

    pub(crate) fn mended_by(mut self, shard: ShardIndex, writes: Vec<Write>) -> Self {
        let repair = self.repair.get_or_insert_default();
        match repair.writes.iter_mut().find(|(s, _)| *s == shard) {
            Some((_, more)) => more.extend(writes),
            None => repair.writes.push((shard, writes)),
        }
        self
    }

    /// Whether `--repair` mends this. It does if the right state follows from other records, and
    /// nothing that can be reached is lost.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        self.repair.is_some()
    }
}

/// The writes that mend a finding, one insert group for each shard, and the objects to delete.
#[derive(Clone, Default, Debug)]
pub(crate) struct Repair {
    pub(crate) writes: Vec<(ShardIndex, Vec<Write>)>,
    pub(crate) objects: Vec<ObjectId>,
}

/// Something that was read and that a finding follows from. It can be read again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Evidence {
    /// All rows of a range, as a digest of their keys and values.
    Rows { shard: ShardIndex, from: Vec<u8>, to: Vec<u8>, digest: u64 },
    /// Number of entries in a range, and number of directories among them.
    Names { shard: ShardIndex, from: Vec<u8>, to: Vec<u8>, names: u64, subdirs: u64 },
    /// Size of an object; `None` if it is missing.
    Object(ObjectId, Option<u64>),
}

impl Evidence {
    /// A row as it was read; `None` if it is missing.
    pub(crate) fn row(shard: ShardIndex, key: &[u8], value: Option<&[u8]>) -> Self {
        let mut hasher = DefaultHasher::new();
        if let Some(value) = value {
            (key, value).hash(&mut hasher);
        }
        let mut to = key.to_vec();
        to.push(0);
        Self::Rows { shard, from: key.to_vec(), to, digest: hasher.finish() }
    }

    /// All rows of a range as they were read.
    pub(crate) fn range<'r>(
        shard: ShardIndex,
        (from, to): (Vec<u8>, Vec<u8>),
        rows: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        rows.into_iter().for_each(|(key, value)| (key, value).hash(&mut hasher));
        Self::Rows { shard, from, to, digest: hasher.finish() }
    }

    /// The first key that this evidence is about, with its shard. `None` if it is not about rows.
    pub(crate) fn first_row(&self) -> Option<(ShardIndex, &[u8])> {
        match self {
            Self::Rows { shard, from, .. } | Self::Names { shard, from, .. } => {
                Some((*shard, from))
            }
            Self::Object(..) => None,
        }
    }

    /// Whether a new reading gives what was read before.
    pub(crate) fn holds(
        &self,
        rows: &mut dyn Rows,
        objects: &mut Option<&mut dyn Objects>,
    ) -> Result<bool, String> {
        match self {
            Self::Rows { shard, from, to, digest: before } => {
                Ok(digest(rows, *shard, from, to)? == *before)
            }
            Self::Names { shard, from, to, names, subdirs } => {
                Ok(count(rows, *shard, from, to)? == (*names, *subdirs))
            }
            Self::Object(id, size) => match objects {
                Some(objects) => Ok(objects.size(*id)? == *size),
                None => Ok(false),
            },
        }
    }
}

fn digest(rows: &mut dyn Rows, shard: ShardIndex, from: &[u8], to: &[u8]) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    cursor::scan(rows, shard, (from, to), &mut |key, value| {
        (key, value).hash(&mut hasher);
        true
    })?;
    Ok(hasher.finish())
}

fn count(
    rows: &mut dyn Rows,
    shard: ShardIndex,
    from: &[u8],
    to: &[u8],
) -> Result<(u64, u64), String> {
    let mut counted = (0, 0);
    cursor::scan(rows, shard, (from, to), &mut |_, value| {
        if let Ok(Entry { is: Some((_, value)), .. }) = Entry::decode(value) {
            counted.0 += 1;
            counted.1 += u64::from(matches!(value, EntryValue::Dir(_)));
        }
        true
    })?;
    Ok(counted)
}

/// Findings, up to a limit. A shard that has lost most of its rows may cause millions.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) kept: Vec<Finding>,
    pub(crate) more: u64,
}

impl Findings {
    /// Most findings kept. Further ones are only counted.
    const KEPT_MAX: usize = 100_000;

    pub(crate) fn push(&mut self, finding: Finding) {
        if self.kept.len() < Self::KEPT_MAX {
            self.kept.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// Counts of unfinished work when the tables were read. None of it is damage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pending {
    /// Living sessions of clients.
    pub sessions: u64,
    /// Records of open files, one for each inode and session.
    pub opens: u64,
    /// Operations that are decided but not finished on all shards.
    pub decided: u64,
    /// Steps of operations that wait to hear of a decision.
    pub prepared: u64,
    /// Partitions and hash slots on their way to another shard.
    pub arriving: u64,
    /// Removed directories that still have partitions.
    pub tombstones: u64,
    /// Files without names that are open.
    pub nameless: u64,
    /// Objects that are to be deleted.
    pub garbage: u64,
}

/// Result of a check.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Findings, ordered by shard and code.
    pub findings: Vec<Finding>,
    /// Number of findings and suspicions beyond the limits, which are not listed.
    pub not_kept: u64,
    /// Number of suspicions that were not judged: their rows changed meanwhile, or they may follow
    /// from rows that cannot be read.
    pub unjudged: u64,
    /// Number of rows read.
    pub rows: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of files of all other kinds.
    pub files: u64,
    /// Number of objects listed.
    pub objects: u64,
    /// Unfinished work.
    pub pending: Pending,
}

impl Report {
    /// Whether there is no finding.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.not_kept == 0
    }
}
