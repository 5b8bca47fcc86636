//! Writers that are cut off after each of their stores, memories that were tampered with, and the
//! real file.

mod cuts;
mod damage;
mod file;
mod log;
#[cfg(feature = "planted")]
mod planted;
