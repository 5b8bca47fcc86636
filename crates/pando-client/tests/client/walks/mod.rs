//! Paths and places: walked, guessed, remembered, routed.

pub mod guesses;
pub mod paths;
pub mod places;
pub mod remembered;
pub mod routing;
