//! Faults of the shell that tests plant, to see that the checks find them.

/// A fault of the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Replies leave before the log is written.
    ReplyBeforeLogWrite,
    /// Messages to other shards leave when the log is written, though they need a sync.
    PeersBeforeSync,
    /// In mode `disk` replies leave when the log is written.
    ReplyBeforeSync,
    /// The shard's ticks are never planned.
    NoTicks,
    /// The end of a checkpoint lets no stopped request go on.
    StoppedNotWoken,
    /// `GiveAway` is answered with `Given`, and `given-K` is not written.
    GivenUnwritten,
    /// A shard that has thawed, and has run since, may be given away.
    ThawedAndGiven,
    /// The target asks for the shard before its copy is durable.
    CopyUnsynced,
    /// The target drops the groups of the exchange, the last of which a frozen source has sent.
    LastChangesLost,
}
