//! Calls by path, for programs that use the file system as a library.
//!
//! A path is walked as Linux walks it: component by component from the root, each with the caller's
//! search permission, and through symlinks. `..` is the directory's parent. Directories are
//! remembered from call to call, and unknown ones are asked for all at once. So a path of known
//! directories costs one request, however deep it is. Any other costs hardly more than two, one
//! after the other. A change takes effect only while its whole path exists. If a directory was
//! renamed, or closed to the caller, a shard finds out, and the path is walked anew.
//!
//! The caller need only give back what [`Paths::resolve`] and [`Paths::open`] return.

mod dir;
mod guess;
mod open;
mod paths;
mod tries;
mod walk;

pub use dir::Dir;
pub use paths::Paths;
