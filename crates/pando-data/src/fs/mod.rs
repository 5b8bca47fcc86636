//! The open files of one mount.

pub(crate) mod attributes;
pub(crate) mod files;
pub(crate) mod flush;
pub(crate) mod guards;
pub(crate) mod limits;
pub(crate) mod lose;
pub(crate) mod losses;
pub(crate) mod maintenance;
pub(crate) mod range;
pub(crate) mod read;
pub(crate) mod write;
