//! Records and objects of a volume, as `pando-fsck` reads them.

pub mod objects;
pub mod served;
pub mod stopped;
