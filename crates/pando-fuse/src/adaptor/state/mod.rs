//! What the adaptor keeps between requests.

pub mod closing;
pub mod dropping;
pub mod inner;
pub mod keeper;
pub mod lock_owners;
pub mod open_dirs;
pub mod powers;
pub mod removed_dirs;
