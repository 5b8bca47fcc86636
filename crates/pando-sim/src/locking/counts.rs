//! What became of locks, counted.

use std::ops::AddAssign;

/// How often what happened to locks.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Locks that were granted.
    pub granted: u64,
    /// Of those, shared ones.
    pub shared: u64,
    /// Locks that were asked for and refused, as somebody was in the way.
    pub refused: u64,
    /// Locks for which nobody waited any longer, after a loss of power.
    pub given_up: u64,
    /// Locks that another had, whose session was over.
    pub taken_over: u64,
    /// Of those, of owners who did not know.
    pub unaware: u64,
    /// Values that were read and judged.
    pub reads: u64,
    /// Values that were written.
    pub writes: u64,
    /// Writes that were not answered, or refused.
    pub unsure: u64,
    /// Of those, found by the next who read.
    pub unsure_found: u64,
    /// Owners who were told that they lost their locks, when they asked for a lock, or to give it
    /// back.
    pub told: u64,
    /// Changing requests that came after the lock of their session was another's.
    pub late: u64,
    /// Changing requests of sessions with locks that ran.
    pub ran: u64,
    /// Sessions that were ended while their clients worked.
    pub ended: u64,
    /// Slots with locks that were to be another shard's.
    pub slots_moved: u64,
    /// Files with locks that changed their name.
    pub renamed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.granted += other.granted;
        self.shared += other.shared;
        self.refused += other.refused;
        self.given_up += other.given_up;
        self.taken_over += other.taken_over;
        self.unaware += other.unaware;
        self.reads += other.reads;
        self.writes += other.writes;
        self.unsure += other.unsure;
        self.unsure_found += other.unsure_found;
        self.told += other.told;
        self.late += other.late;
        self.ran += other.ran;
        self.ended += other.ended;
        self.slots_moved += other.slots_moved;
        self.renamed += other.renamed;
    }
}
