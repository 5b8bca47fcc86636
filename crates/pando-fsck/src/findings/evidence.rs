//! Evidence: what a finding follows from. It can be read again.

use std::hash::{DefaultHasher, Hash, Hasher};

use pando_core::record::{Entry, Record};
use pando_types::ShardIndex;
use pando_types::op::ObjectId;
use pando_types::peer::EntryValue;

use crate::rows::cursor;
use crate::rows::source::{Objects, Rows};

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
