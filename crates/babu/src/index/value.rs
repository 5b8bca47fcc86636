//! A value that a read returns. It is borrowed from a tree or from a block, and never copied.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::index::format::block::Block;

/// The bytes of a value.
#[derive(Clone)]
pub struct Value<'a>(Place<'a>);

#[derive(Clone)]
enum Place<'a> {
    Tree(&'a [u8]),
    Block { block: Arc<Block>, range: Range<usize> },
}

impl<'a> Value<'a> {
    pub(crate) fn in_tree(bytes: &'a [u8]) -> Value<'a> {
        Value(Place::Tree(bytes))
    }

    pub(crate) fn in_block(block: Arc<Block>, range: Range<usize>) -> Value<'static> {
        Value(Place::Block { block, range })
    }
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Tree(bytes) => bytes,
            Place::Block { block, range } => block.bytes(range.clone()),
        }
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for Value<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({})", self.escape_ascii())
    }
}
