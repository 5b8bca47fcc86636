//! What an index file is made of.

pub mod block;
pub mod facts;
pub mod header;
pub mod list;
