//! State of partitions and hash slots that move.

pub mod copy;
pub mod count;
pub mod hash_slot_rows;
pub mod parts;
pub mod small;
pub mod tally;
pub mod whereabouts;
