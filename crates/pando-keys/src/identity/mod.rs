//! What a certificate says, and what can be wrong with it.

pub mod certificate;
pub mod error;
pub mod holder;
pub mod parse;
pub mod role;
pub mod serial;
pub mod squash;
pub mod uri;
