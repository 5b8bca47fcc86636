//! Tests of records without a handshake, and of whole connections.

mod connections;
mod records;
