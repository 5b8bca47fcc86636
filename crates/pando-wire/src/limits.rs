//! The version of frames, and how long they may be.

/// Version of frames that this build speaks.
pub const VERSION: u8 = 22;
/// Longest frame, in bytes after its length field. A page of a split, or a file's inline data, fits
/// many times.
pub const FRAME_MAX: u32 = 16 << 20;
/// Longest frame before the other side has been welcomed.
pub const FIRST_FRAMES_MAX: u32 = 256 << 10;
/// Most revoked keys that one frame names: they fit into the first frames of a connection. After a
/// frame with so many comes another one ([`Message::Revoked`](crate::Message::Revoked)).
pub const REVOKED_MAX: usize = 12_000;
/// Most revoked keys that a process takes in at the beginning of a connection.
pub const REVOKED_IN_ALL_MAX: usize = 20 * REVOKED_MAX;
/// Most bytes of records in one answer to a scan.
pub const SCAN_MAX: u32 = 4 << 20;
/// Bytes before the body, the length field included.
pub const HEADER_LEN: usize = 20;
