//! The client against a fake cluster that knows everything and runs each request at once.

mod fake;
mod namespace;
mod sizes;

mod doubts;
mod guesses;
mod leases;
mod listing;
mod locks;
mod pages;
mod paths;
mod places;
#[cfg(feature = "planted")]
mod planted;
mod releases;
mod remembered;
mod routing;
mod sessions;
mod shrinking;
mod stat;
