//! A volume's folder: its layout, the locks on it, formatting, notes of moves and of sessions.

pub mod error;
pub mod files;
pub mod format;
pub mod kept;
pub mod layout;
pub mod lock;
pub mod move_notes;
pub mod place;
pub mod sessions;
pub mod superblock;
pub mod taken;

pub use error::FolderError;
pub use format::objects_of;
pub use layout::Folder;
pub use lock::FolderLock;
