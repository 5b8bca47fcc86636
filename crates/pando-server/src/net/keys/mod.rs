//! Who may connect, and what each key may ask.

pub mod guests;
pub mod revoked;
pub mod roles;
