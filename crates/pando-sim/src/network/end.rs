//! The ends of connections, and the directions between them.

/// A sender or receiver of messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// A client, by its number.
    Client(u32),
    /// A shard, by its position.
    Shard(usize),
    /// A process that answers questions about moves, by its position.
    Process(usize),
    /// The part of a process that asks other processes about moves, by the process's position.
    Target(usize),
}

/// The direction from one end to another, on one of their connections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// The sending end.
    pub from: End,
    /// The receiving end.
    pub to: End,
    /// Number of the connection among all that these two ends have had, from 0 on.
    pub connection: u64,
}

impl Way {
    /// The two ends, the lower one first.
    pub(super) fn pair(self) -> (End, End) {
        (self.from.min(self.to), self.from.max(self.to))
    }
}
