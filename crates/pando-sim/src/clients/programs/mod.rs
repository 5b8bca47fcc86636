//! What programs do beside random operations: they fsync, lock, and write files with objects.

pub mod keeping;
pub mod lock_holder;
pub mod locks;
mod object_names;
mod object_writer;
mod objects;
pub mod walk;
