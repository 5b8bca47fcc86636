//! The FUSE protocol as data: the kernel's structures, requests, answers, and the channel that they
//! pass through.

pub mod abi;
pub mod body;
pub mod channel;
pub mod connection;
pub mod entry;
pub mod init;
pub mod listing;
pub mod operation;
pub mod request;
