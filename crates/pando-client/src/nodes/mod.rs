//! What the client knows of inodes: where each is, who has it open, which are being renamed,
//! and which directories a walk comes to next.

pub mod openers;
pub mod renames;
pub mod table;
pub mod untold;
pub mod walks;
