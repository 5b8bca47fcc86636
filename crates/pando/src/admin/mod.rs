//! Other Pando processes of this machine, and what they answer on their admin sockets.

pub mod asking;
pub mod locate;
pub mod mount;
pub mod protocol;
pub mod silent;
pub mod sockets;
