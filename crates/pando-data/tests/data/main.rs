//! Tests of file contents: against a model, beside dying shards, failing stores and lost objects.
//!
//! `planted` needs the feature of that name.

mod behaviour;
mod common;
mod leftovers;
mod losses;
mod model;
#[cfg(feature = "planted")]
mod planted;
mod syncs;
