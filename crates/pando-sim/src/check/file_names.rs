//! Names of files whose contents the model does not know.

use pando_types::Name;

use crate::model::Op;

/// Whether a name belongs to a file that programs lock.
#[must_use]
pub fn is_locked(name: &Name) -> bool {
    name.as_bytes().starts_with(b"lock")
}

/// Whether an operation creates, renames or links a file that programs lock, or one with objects.
pub(crate) fn concerns(op: &Op) -> bool {
    match op {
        Op::Create { name, .. } | Op::Rename { name, .. } | Op::Link(_, _, name) => {
            is_locked(name) || has_objects(name)
        }
        _ => false,
    }
}

/// Whether a name belongs to a file with objects.
#[must_use]
pub fn has_objects(name: &Name) -> bool {
    name.as_bytes().starts_with(b"object")
}
