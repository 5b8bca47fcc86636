//! Which shard runs an operation.

pub mod plan;
pub mod routes;
