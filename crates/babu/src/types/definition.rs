//! What a snapshot has in it, and how the log and the manifest say so.

use crate::types::codec::{Fields, put_sized};
use crate::types::ids::IndexId;
use crate::types::select::Selection;

/// Length in bytes of the longest name of a snapshot or index.
pub const MAX_NAME_BYTES: usize = 255;

/// The content of a snapshot: a part of the database, or all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definition {
    /// The one index that the snapshot contains. `None`: all indices.
    pub index: Option<IndexId>,
    /// The keys of these indices that the snapshot contains.
    pub selection: Selection,
    /// Name of an earlier snapshot. What is equal in it is not written again. It may be dropped
    /// later: what this snapshot needs of it stays. A base is only of use for a partial snapshot,
    /// as a whole one shares files anyway.
    pub base: Option<String>,
}

impl Definition {
    /// A snapshot of everything.
    pub fn all() -> Definition {
        Definition::default()
    }

    /// Encodes u8 flags (1: one index, 2: a base) ‖ u16 index ‖ sized base ‖ selection.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.index.is_some()) | u8::from(self.base.is_some()) << 1);
        out.extend_from_slice(&self.index.unwrap_or_default().0.to_le_bytes());
        put_sized(out, self.base.as_deref().unwrap_or_default().as_bytes());
        self.selection.encode(out);
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Option<Definition> {
        let flags = fields.u8()?;
        let index = IndexId(fields.u16()?);
        let base = String::from_utf8(fields.sized()?.to_vec()).ok()?;
        let selection = Selection::decode(fields)?;
        let is = |bit: u8| flags & bit != 0;
        (flags < 4).then_some(Definition {
            index: is(1).then_some(index),
            selection,
            base: is(2).then_some(base),
        })
    }
}
