//! State of partitions and hash slots that move.

pub mod copy;
pub mod count;
pub mod parts;
pub mod slot_rows;
pub mod small;
pub mod tally;
pub mod whereabouts;
