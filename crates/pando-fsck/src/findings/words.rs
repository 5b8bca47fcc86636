//! Names of directories, inodes and objects in messages.

use pando_types::op::ObjectId;
use pando_types::{DirId, Ino, Name};

/// Name of a directory in messages.
pub fn dir_words(dir: DirId) -> String {
    if dir == DirId::ROOT { "the root directory".to_owned() } else { format!("directory {dir}") }
}

/// Name of an inode in messages.
pub fn ino_words(ino: Ino) -> String {
    format!("inode {ino}")
}

/// Name of an entry in messages.
pub fn in_words(dir: DirId, name: &Name) -> String {
    format!("\"{name}\" in {}", dir_words(dir))
}

/// Name of a link inode in messages.
pub fn link_in_words(ino: Ino) -> String {
    format!("{} at its link shard", ino_words(ino))
}

/// Name of an object in messages.
pub fn object_words(object: ObjectId) -> String {
    format!("object {:032x}", object.0)
}
