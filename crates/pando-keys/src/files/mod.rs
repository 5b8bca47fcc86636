//! Files of keys: who may read and write them, and how they are written.

pub mod bundle;
pub mod guard;
pub mod pem;
