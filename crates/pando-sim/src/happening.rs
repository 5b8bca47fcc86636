//! What may happen at a moment.

use crate::mail::Ticket;
use crate::network::Way;

/// Shards are named by their position, their processes by the number of their life.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Bytes arrive.
    Deliver(Way),
    /// What lingered after its connection broke arrives.
    Linger(u64),
    /// A connection breaks.
    Break(Way),
    /// A client waited long enough for a reply.
    TimeOut(Ticket),
    /// A client slept long enough.
    Wake(Ticket),
    /// A shard turns to its inbox.
    Turn(usize, u64),
    /// The timer of a process, named by its position and life, is woken.
    Timer(usize, u64),
    /// A sync of a shard's log ends.
    Sync(usize, u64),
    /// The next sync that nobody hurries.
    BackgroundSync(usize),
    /// A checkpoint of a shard is wanted.
    Checkpoint(usize),
    /// The next step of the checkpoint that a process makes.
    CheckpointStep(usize, u64),
    /// The disk of a shard will stop soon.
    ArmCrash(usize),
    /// A shard's process dies.
    Crash(usize, u64),
    /// It comes back.
    Restart(usize),
    /// A slot is handed over.
    HandOver,
    /// Some cease to reach others.
    Cut,
    /// The clock of a machine is set.
    SetClock,
    /// A client dies.
    ClientDies,
    /// A client stands still.
    ClientPauses,
    /// It goes on.
    ClientResumes(u32),
    /// The session of a client is ended while it works.
    SessionEnds,
    /// Something befalls the disk of a shard.
    DiskFails(usize),
    /// That trouble is over.
    DiskMends(usize, u64),
    /// Somebody wants a shard to move.
    Move,
    /// The target of a move, by process and shard, goes on, unless it waits for something else by
    /// now.
    MoveGoesOn(usize, usize, u64),
    /// It is not answered.
    MoveSilent(usize, usize, u64),
    /// A process looks whether its old copy of a shard can go.
    LookWhetherClear(usize, u64, usize),
    /// A process opens a link to another.
    Greet(usize, u64, usize),
    /// A process with a shard that has stopped is started anew.
    Replace(usize, u64),
}
