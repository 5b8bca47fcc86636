//! What is made of a store in the background: checkpoints and merges.

/// Files of a store that are to be made.
pub(crate) enum Work {
    Checkpoint(babu::CheckpointJob),
    Merge(babu::MergeJob),
}

/// Files that are made, or could not be.
pub(crate) enum Made {
    Checkpoint(Result<babu::CheckpointDone, babu::CheckpointError>),
    Merge(Result<babu::MergeDone, babu::CheckpointError>),
}

impl Work {
    /// Blocks while it reads and writes.
    pub(crate) fn run(self) -> Made {
        match self {
            Self::Checkpoint(job) => Made::Checkpoint(job.run()),
            Self::Merge(job) => Made::Merge(job.run()),
        }
    }
}
