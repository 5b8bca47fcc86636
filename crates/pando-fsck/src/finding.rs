//! What was found, by what it is known, and what would mend it.

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

/// Something that is not as it must be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which invariant.
    pub code: Code,
    /// The shard with the row that is wrong, or should be there.
    pub shard: ShardIndex,
    /// What is concerned: a directory, name, file, session…
    pub what: String,
    /// Its path from the root, if it can be told.
    pub path: Option<String>,
    /// What is there, and what should be.
    pub detail: String,
    pub(crate) repair: Option<Repair>,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) under: Vec<Place>,
    /// A name that is missing or too many: the count of its partition is wrong for that reason.
    pub(crate) name: Option<(DirId, u64)>,
    /// The partition whose count is wrong.
    pub(crate) counted: Option<(DirId, Range<u64>)>,
    /// Whose path to tell.
    pub(crate) at: Option<At>,
}

/// Something with a path.
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

    /// Whether `--repair` mends it: what is right follows from what is there, and nothing that can
    /// be reached is lost.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        self.repair.is_some()
    }
}

/// What mends a finding: one insert group a shard, and objects that go.
#[derive(Clone, Default, Debug)]
pub(crate) struct Repair {
    pub(crate) writes: Vec<(ShardIndex, Vec<Write>)>,
    pub(crate) objects: Vec<ObjectId>,
}

/// Something that was read and that a finding follows from; it can be read again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Evidence {
    /// All rows of a range, by a digest of their keys and values.
    Rows { shard: ShardIndex, from: Vec<u8>, to: Vec<u8>, digest: u64 },
    /// How many entries are in a range, and how many of them are directories.
    Names { shard: ShardIndex, from: Vec<u8>, to: Vec<u8>, names: u64, subdirs: u64 },
    /// An object's size.
    Object(ObjectId, Option<u64>),
}

impl Evidence {
    /// A row as it was read; `None`: it is not there.
    pub(crate) fn row(shard: ShardIndex, key: &[u8], value: Option<&[u8]>) -> Self {
        let mut hasher = DefaultHasher::new();
        if let Some(value) = value {
            (key, value).hash(&mut hasher);
        }
        let mut to = key.to_vec();
        to.push(0);
        Self::Rows { shard, from: key.to_vec(), to, digest: hasher.finish() }
    }

    /// All rows of a range, as they were read.
    pub(crate) fn range<'r>(
        shard: ShardIndex,
        (from, to): (Vec<u8>, Vec<u8>),
        rows: impl IntoIterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        rows.into_iter().for_each(|(key, value)| (key, value).hash(&mut hasher));
        Self::Rows { shard, from, to, digest: hasher.finish() }
    }

    /// The first of the keys it is about, and the shard that was asked; `None`: it is not about
    /// rows.
    pub(crate) fn first_row(&self) -> Option<(ShardIndex, &[u8])> {
        match self {
            Self::Rows { shard, from, .. } | Self::Names { shard, from, .. } => {
                Some((*shard, from))
            }
            Self::Object(..) => None,
        }
    }

    /// Whether it is still so.
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

/// Findings, as many as are kept: of a shard whose rows are mostly lost there may be millions.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) kept: Vec<Finding>,
    pub(crate) more: u64,
}

impl Findings {
    /// Most that are kept; more are counted.
    const KEPT_MAX: usize = 100_000;

    pub(crate) fn push(&mut self, finding: Finding) {
        if self.kept.len() < Self::KEPT_MAX {
            self.kept.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// What was under way when the tables were read; none of it is damage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pending {
    /// Sessions of clients.
    pub sessions: u64,
    /// Inodes open, by session.
    pub opens: u64,
    /// Operations decided, and not finished on all shards.
    pub decided: u64,
    /// Steps of operations that wait for a decision, or for word of it.
    pub prepared: u64,
    /// Partitions on their way to another shard.
    pub arriving: u64,
    /// Removed directories whose partitions are not all dropped.
    pub tombstones: u64,
    /// Nameless files that are open.
    pub nameless: u64,
    /// Objects to be deleted.
    pub garbage: u64,
}

/// What a check came to.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// What is wrong, by shard and code.
    pub findings: Vec<Finding>,
    /// Findings beyond the most that are kept.
    pub not_kept: u64,
    /// Suspicions about what changed while it was looked at, or what may follow from rows that
    /// cannot be read: not judged.
    pub unjudged: u64,
    /// Rows read.
    pub rows: u64,
    /// Directories.
    pub directories: u64,
    /// Other files.
    pub files: u64,
    /// Objects listed.
    pub objects: u64,
    /// What is under way.
    pub pending: Pending,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.not_kept == 0
    }
}
