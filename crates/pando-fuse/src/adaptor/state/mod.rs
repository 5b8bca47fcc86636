//! What the adaptor keeps between requests.

pub mod closing;
pub mod dropping;
pub mod holding;
pub mod inner;
pub mod lock_owners;
pub mod open_dirs;
pub mod powers;
pub mod removed_dirs;
