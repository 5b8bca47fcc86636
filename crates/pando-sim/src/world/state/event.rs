//! The events of the simulation's queue.

use crate::network::end::Way;
use crate::network::mail::Ticket;

/// An event of the simulation. Shards and processes are named by their positions. An event of a
/// process or shard also has the number of the process's life: the event is dropped if that life is
/// over.
#[derive(Clone, Debug)]
pub enum SimEvent {
    /// Bytes arrive.
    Deliver(Way),
    /// Bytes that lingered after their connection broke arrive.
    Linger(u64),
    /// A connection breaks.
    Break(Way),
    /// The time that a client waits for a reply is over.
    TimeOut(Ticket),
    /// A client's sleep ends.
    Wake(Ticket),
    /// A shard handles its inbox.
    Turn(usize, u64),
    /// The timer of a process fires.
    Timer(usize, u64),
    /// A sync of a shard's log that the shard has asked for ends.
    Sync(usize, u64),
    /// The next background sync of a shard's log.
    BackgroundSync(usize),
    /// A checkpoint of a shard is wanted.
    Checkpoint(usize),
    /// A process takes the next step of its checkpoint.
    CheckpointStep(usize, u64),
    /// The disk of a shard is told to stop at one of its next changes.
    ArmCrash(usize),
    /// A process dies.
    Crash(usize, u64),
    /// A process is started again.
    Restart(usize),
    /// A hash slot is handed over.
    HandOver,
    /// A cut of the network begins.
    Cut,
    /// The clock of a machine is set.
    SetClock,
    /// A client dies.
    ClientDies,
    /// A client stands still.
    ClientPauses,
    /// A client stands still, or is cut off, for longer than it may use what it has borrowed.
    ClientIsAway,
    /// A client that stood still goes on.
    ClientResumes(u32),
    /// The session of a client is ended while the client works.
    SessionEnds,
    /// The disk of a shard gets a fault.
    DiskFails(usize),
    /// The disk's fault of that number ends.
    DiskMends(usize, u64),
    /// A shard is asked to move.
    Move,
    /// The target of a move, by process, shard and number of its wait, takes its next step. The
    /// event is dropped if the target waits for something else by now.
    MoveGoesOn(usize, usize, u64),
    /// The target of a move, by process, shard and number of its wait, gets no answer.
    MoveSilent(usize, usize, u64),
    /// A process checks whether its old copy of a shard may be removed.
    LookWhetherClear(usize, u64, usize),
    /// A process opens a link to another process.
    Greet(usize, u64, usize),
    /// A process with a stopped shard is started again.
    Replace(usize, u64),
}
