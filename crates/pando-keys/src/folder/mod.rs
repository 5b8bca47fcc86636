//! A volume's folder of keys, its authority, and what that has issued.

pub mod authority;
pub mod issued;
pub mod keys;
pub mod names;
pub mod rotation;
pub mod trust;
