//! How the data of a file is kept, and what a flush sends.

use pando_types::op::{ObjectId, Piece};

/// How a file's data is kept, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Unknown,
    Inline,
    Objects,
}

/// What a flush sends.
pub(crate) struct Plan {
    pub(crate) base: Option<u64>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) objects: Vec<ObjectId>,
    pub(crate) form: Form,
    /// The dirty bytes that it was made from, by their
    /// [`Dirty::changes`](crate::inode::dirty::Dirty::changes).
    pub(crate) of: u64,
}
