//! State of partitions and hash slots that move.

pub mod arrivals;
pub mod copies;
pub mod copy;
pub mod count;
pub mod hash_slot_rows;
pub mod merges;
pub mod parts;
pub mod tally;
pub mod whereabouts;
