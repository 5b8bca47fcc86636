//! The store of the objects that writes name, and which objects these are.

use std::collections::BTreeSet;
use std::fmt::Debug;

use pando_client::BoxFuture;
use pando_types::Errno;
use pando_types::lend::{Act, Element};
use pando_types::op::{ObjectId, ObjectRange};
use pando_types::requests::asked::Asked;

/// The store of the objects that writes name.
pub trait Objects: Debug + Send + Sync {
    /// Makes durable all that this process stored before the call. After an error none of it may be
    /// named, ever.
    fn sync<'a>(&'a self) -> BoxFuture<'a, Result<(), Errno>>;

    /// Makes durable what a process has stored that has ended. Returns those objects which are not
    /// whole.
    fn adopt<'a>(
        &'a self,
        objects: Vec<ObjectRange>,
    ) -> BoxFuture<'a, Result<BTreeSet<ObjectId>, Errno>>;
}

/// The objects that an element names.
pub(crate) fn named(element: &Element) -> Vec<ObjectRange> {
    let asked = match &element.act {
        Act::Change(change) => Asked::decode(&change.asked).ok(),
        Act::Return(_) => None,
    };
    asked.map_or_else(Vec::new, |asked| asked.op.objects().copied().collect())
}
