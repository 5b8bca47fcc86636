//! What tools ask of a running process, and what they find out by requests.

pub mod admin;
pub mod inspect;
