//! What a session counts of the requests that it has answered.

pub mod counted;
pub mod profile;
