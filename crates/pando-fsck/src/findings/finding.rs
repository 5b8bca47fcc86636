//! Findings: what is wrong, the evidence for it, and what would mend it.

use std::ops::Range;

use pando_core::Write;
use pando_types::op::ObjectId;
use pando_types::{DirId, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::unfinished::place::Place;

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
