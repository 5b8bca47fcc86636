//! Listings and counts over partitions.

pub mod listing;
pub mod pages;
pub mod shrinking;
pub mod stat;
