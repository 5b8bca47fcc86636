//! A mounted tree of this process, over any transport.

pub mod answers;
pub mod kernel;
pub mod losses;
pub mod mount;
pub mod mountpoint;
pub mod outspoken;
pub mod set_aside;
pub mod stop;
