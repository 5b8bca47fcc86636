//! The database: state, reads and writes, checkpoints, snapshots, ingestion.

pub mod checkpoint;
pub mod database;
pub mod export;
pub mod ingest;
pub mod keep;
pub mod merge;
pub mod open;
pub mod pressure;
pub mod published;
pub mod retired;
pub mod scrub;
pub mod snapshot;
pub mod state;
