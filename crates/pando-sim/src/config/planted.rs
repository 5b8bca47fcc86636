//! Faults that tests plant in the simulator itself.

/// Faults that tests plant in the clients' objects.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// The shards sync their logs without the objects that the logs name.
    ObjectsUnsynced,
    /// Clients store objects as if the shards synced them.
    RowBeforeSync,
}
