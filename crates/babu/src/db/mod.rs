//! The database: state, reads and writes, checkpoints, snapshots, ingestion.

pub mod ahead;
pub mod checkpoint;
pub mod database;
pub mod ingest;
pub mod keep;
pub mod open;
pub mod scan;
pub mod snapshot;
pub mod state;
pub mod stats;
pub mod view;
