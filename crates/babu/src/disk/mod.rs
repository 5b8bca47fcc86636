//! Disks: the trait, a real one, one in memory.

pub mod mapped;
pub mod memdisk;
pub mod realdisk;
pub mod room;
pub mod traits;
