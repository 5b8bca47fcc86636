//! A process that serves until it is stopped, in the background or in the foreground.

pub mod background;
pub mod log;
pub mod memory;
pub mod notify;
pub mod signals;
