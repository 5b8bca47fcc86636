//! What this mount knows of one open file.

pub(crate) mod dirty;
pub(crate) mod plan;
pub(crate) mod state;
