//! What was seen of one name.

use pando_types::{FileKind, Ino, Name};

/// What a listing or a walk saw under a name, at some time of its duration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sight {
    /// The directory.
    pub dir: Ino,
    /// The name.
    pub name: Name,
    /// The inode that the name led to; `None`: the name did not exist.
    pub to: Option<(Ino, FileKind)>,
}
