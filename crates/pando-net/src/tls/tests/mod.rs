//! Records by themselves, without a handshake, and connections through both.

mod connections;
mod records;
