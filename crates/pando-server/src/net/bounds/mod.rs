//! How much others may ask of this process, hold in its memory, and write into its log.

pub mod budget;
pub mod greetings;
pub mod limits;
pub mod murmur;
pub mod weight;
