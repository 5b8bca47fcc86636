//! A batch of elements on its way through the shard.

use alloc::boxed::Box;
use pando_types::op::Request;

use crate::contract::ClientTag;

/// A request with elements, of which some have run. Each element is an input of its own, since the
/// next one reads what it wrote.
#[derive(Debug)]
pub struct Batch {
    /// Who hears how far the grants have come.
    pub tag: ClientTag,
    /// The request.
    pub request: Box<Request>,
    /// Index of the next element.
    pub next: usize,
}
