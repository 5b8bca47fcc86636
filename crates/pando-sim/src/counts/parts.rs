//! Small groups of counts that belong together.

use pando_core::Counters;

use super::counts;

counts! {
    /// Requests given up by clients.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Doubts {
        /// All of them.
        pub given_up: u64,
        /// Those that were later found not to have run.
        pub not_run: u64,
        /// Those that were later found to have run.
        pub run: u64,
    }
}

counts! {
    /// Hash slots that other shards were to have.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Handovers {
        /// Hash slots handed over.
        pub done: u64,
        /// Handovers given up.
        pub given_up: u64,
        /// Decisions that were sent on, because their place had moved to another shard.
        pub readdressed: u64,
    }
}

counts! {
    /// Splits of partitions.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Splits {
        /// Splits within a shard.
        pub local: u64,
        /// Splits to another shard.
        pub moved: u64,
    }
}

counts! {
    /// Parts of directories that clients borrow.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Loans {
        /// Parts lent.
        pub lent: u64,
        /// Parts lent of directories that have split.
        pub lent_split: u64,
        /// Parts that somebody wanted meanwhile.
        pub recalled: u64,
        /// Parts that their holders gave back.
        pub returned: u64,
        /// Parts taken back without their holders.
        pub fenced: u64,
        /// Changes that holders had answered and shards applied.
        pub elements: u64,
        /// Changes that shards did not apply.
        pub refused: u64,
        /// Changes that holders had answered and set aside.
        pub set_aside: u64,
        /// Changes that were lost with holders that died.
        pub died: u64,
        /// Journals of dead clients that were sent.
        pub journals: u64,
        /// Journals that could not be written.
        pub journals_failed: u64,
        /// Requests that clients answered from what they had read.
        pub remembered: u64,
        /// Requests that kernels answered.
        pub known_to_kernels: u64,
        /// Read grants that were given.
        pub read: u64,
        /// Read grants that somebody else's change, or the reader's own, ended.
        pub read_recalled: u64,
        /// Read grants that ended without their sessions.
        pub read_fenced: u64,
        /// Files that clients opened without telling a shard.
        pub untold: u64,
        /// Of these, files of which they told a shard while they were open.
        pub told: u64,
        /// Clients that stood still for long, or whose machine slept.
        pub stood_still: u64,
        /// Clients that were cut off from shards for long.
        pub cut_off: u64,
    }
}

counts! {
    /// Claims to move directories to another parent.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Claims {
        /// All of them.
        pub all: u64,
        /// Those given while another claim stood.
        pub together: u64,
        /// Those given alone.
        pub alone: u64,
        /// Walks of a moving directory that were repeated.
        pub walks_overtaken: u64,
    }
}

counts! {
    /// Sessions that ended under their clients.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct LostSessions {
        /// Sessions that clients found to be over.
        pub over: u64,
        /// Operations that ended in `EIO`, with an unknown outcome.
        pub unsure: u64,
    }
}

counts! {
    /// Rounds in which clients guessed ids of directories.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Guesses {
        /// All of them.
        pub rounds: u64,
        /// Those repeated because a directory had split unnoticed.
        pub repeats: u64,
    }
}

counts! {
    /// Promises of fsync.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct Promises {
        /// Names with a state that was fsynced.
        pub made: u64,
        /// Later looks at such names.
        pub looks: u64,
    }
}

impl Handovers {
    pub(crate) const fn of(counters: &Counters) -> Self {
        Self {
            done: counters.handovers,
            given_up: counters.handovers_failed,
            readdressed: counters.readdressed,
        }
    }
}

impl Splits {
    pub(crate) const fn of(counters: &Counters) -> Self {
        Self { local: counters.splits_local, moved: counters.splits_moved }
    }
}

impl Loans {
    pub(crate) const fn of(counters: &Counters) -> Self {
        Self {
            lent: counters.parts_lent,
            lent_split: counters.parts_lent_split,
            recalled: counters.parts_recalled,
            returned: counters.parts_returned,
            fenced: counters.parts_fenced,
            elements: counters.elements,
            refused: counters.elements_refused,
            set_aside: 0,
            died: 0,
            journals: 0,
            journals_failed: 0,
            remembered: 0,
            known_to_kernels: 0,
            read: counters.parts_read,
            read_recalled: counters.reads_recalled,
            read_fenced: counters.reads_fenced,
            untold: 0,
            told: 0,
            stood_still: 0,
            cut_off: 0,
        }
    }
}

impl Claims {
    pub(crate) const fn of(counters: &Counters) -> Self {
        Self {
            all: counters.claims,
            together: counters.claims_together,
            alone: counters.claims_alone,
            walks_overtaken: counters.walks_overtaken,
        }
    }
}
