//! The side of the holder: the shard's own code over the parts that a session has borrowed
//! (docs/design/delegations.md, "What a holder does").

mod core;
mod store;
mod under;

pub use core::{Counted, LentCore, Said};
