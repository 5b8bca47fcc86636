//! The client against a fake cluster that knows everything and runs each request at once.

mod fake;
mod sizes;

mod listings;
#[cfg(feature = "planted")]
mod planted;
mod session;
mod walks;
