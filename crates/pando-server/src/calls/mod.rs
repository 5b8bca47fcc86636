//! What comes to a shard and what leaves it: requests, replies, peer messages.

pub mod brake;
pub mod connection;
pub mod held;
pub mod incoming;
pub mod objects;
pub mod outbox;
pub mod parked;
pub mod pending;
pub mod reply_cell;
pub mod reply_to;
pub mod wants;
