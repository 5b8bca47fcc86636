//! Mounting and unmounting, and the kernel's list of mounts.

pub mod helper;
pub mod mount;
pub mod mount_options;
pub mod mounted;
pub mod mountinfo;
pub mod mountpoint;
pub mod options;
pub mod submounts;
pub mod unmount;
pub mod unserved;
