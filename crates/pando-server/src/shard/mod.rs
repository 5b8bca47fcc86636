//! One shard within the process: its machine, its state, and the batches that it runs.

pub mod batch;
pub mod brake;
pub mod cell;
pub mod checkpoint;
pub mod full_disk;
pub mod leaving;
pub mod machine;
#[cfg(feature = "planted")]
pub mod planted;
pub mod read;
pub mod state;
pub mod timer;
pub mod write;
