//! What is known beside lent rows: which requests are under way, which directories are worth
//! borrowing, where lent ones are, and which of them their shards may not know yet.

pub(crate) mod births;
pub(crate) mod clock;
pub(crate) mod eager;
pub(crate) mod places;
pub(crate) mod reach;
pub(crate) mod requests;
