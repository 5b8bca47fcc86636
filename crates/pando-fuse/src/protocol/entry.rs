//! A node with its attributes, in an answer.

use std::time::Duration;

use crate::protocol::abi;

/// A node with its attributes, and how long the kernel may remember both.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Number of the node towards the kernel; 0 for a name that does not exist.
    pub node: u64,
    /// Attributes of the node.
    pub attr: abi::Attr,
    /// How long the kernel may remember that the name leads to this node.
    pub entry_timeout: Duration,
    /// How long the kernel may remember the attributes.
    pub attr_timeout: Duration,
}

impl Entry {
    /// Tells that a name does not exist. The kernel may remember that for `entry_timeout`.
    #[must_use]
    pub fn absent(entry_timeout: Duration) -> Self {
        let attr = abi::Attr::default();
        Self { node: 0, attr, entry_timeout, attr_timeout: Duration::ZERO }
    }

    pub(crate) fn out(&self) -> abi::EntryOut {
        abi::EntryOut {
            nodeid: self.node,
            generation: 0,
            entry_valid: self.entry_timeout.as_secs(),
            attr_valid: self.attr_timeout.as_secs(),
            entry_valid_nsec: self.entry_timeout.subsec_nanos(),
            attr_valid_nsec: self.attr_timeout.subsec_nanos(),
            attr: self.attr,
        }
    }
}
