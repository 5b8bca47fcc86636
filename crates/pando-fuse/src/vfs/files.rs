//! Open files: opening and closing, reading, writing, and their relatives.

use pando_client::{Content, IfThere, Then, block_on};
use pando_data::{Allocate, OpenInfo, Seek};
use pando_types::op::NewNode;
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Kill, Name};

use crate::vfs::file_system::Vfs;

const READ: u8 = 4;
const WRITE: u8 = 2;
const EXECUTE: u8 = 1;

/// Flags of `open(2)`, as the kernel passes them on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    const ACCESS: u32 = 3;
    const WRITE_ONLY: u32 = 1;
    const READ_WRITE: u32 = 2;
    /// The kernel's own flag: the file is opened to be executed.
    const EXEC: u32 = 0x20;
    const EXCLUSIVE: u32 = 0o200;
    const TRUNCATE: u32 = 0o1000;
    const APPEND: u32 = 0o2000;

    /// Whether nothing can be written through the handle.
    #[must_use]
    pub const fn is_read_only(self) -> bool {
        self.0 & Self::ACCESS == 0
    }

    /// Whether writes go to the end (`O_APPEND`).
    #[must_use]
    pub const fn is_append(self) -> bool {
        self.0 & Self::APPEND != 0
    }

    /// Whether the open truncates the file (`O_TRUNC`).
    #[must_use]
    pub const fn truncates(self) -> bool {
        self.0 & Self::TRUNCATE != 0
    }

    /// Whether the file must not exist (`O_EXCL`).
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        self.0 & Self::EXCLUSIVE != 0
    }

    /// Permissions that such an open needs, as bits of `access(2)`.
    #[must_use]
    pub const fn access(self) -> u8 {
        let access = match self.0 & Self::ACCESS {
            Self::WRITE_ONLY => WRITE,
            Self::READ_WRITE => READ | WRITE,
            _ if self.0 & Self::EXEC != 0 => EXECUTE,
            _ => READ,
        };
        if self.truncates() { access | WRITE } else { access }
    }
}

/// Result of an open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Attributes of the file.
    pub attr: Attr,
    /// Whether the kernel's pages of the file are still valid.
    pub keep_pages: bool,
    /// Whether the kernel may skip the FLUSH at `close`.
    pub no_flush: bool,
}

impl Vfs {
    /// Opens a file. `kill` says which bits its truncation takes off.
    pub async fn open(
        &self,
        credentials: &Credentials,
        ino: Ino,
        flags: OpenFlags,
        kill: Option<Kill>,
    ) -> Result<Opened, Errno> {
        let truncates = flags.truncates();
        let content = if truncates { Content::Cut } else { Content::Kept };
        if truncates {
            let ask =
                || block_on(self.namespace.open(credentials, ino, flags.access(), content, kill));
            if let Some(cut) = self.data.open_cut(ino, ask) {
                let (attr, info) = cut?;
                return Ok(self.tell_opened(attr, info, flags));
            }
            // Anything that is flushed from now on was written through an open that began after
            // this call. Either order is right.
        }
        let attr = self.namespace.open(credentials, ino, flags.access(), content, kill).await?;
        let info = if truncates { self.data.opened_cut(&attr) } else { self.data.opened(&attr) };
        Ok(self.tell_opened(attr, info, flags))
    }

    fn tell_opened(&self, attr: Attr, info: OpenInfo, flags: OpenFlags) -> Opened {
        // A close that has an error to report needs its FLUSH.
        let no_flush = flags.is_read_only() && !self.data.has_untold_loss(attr.ino);
        Opened { attr, keep_pages: info.keep_pages, no_flush }
    }

    /// Makes and opens a file. The result counts as one lookup of its node.
    pub async fn create(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        mode: u16,
        flags: OpenFlags,
    ) -> Result<Opened, Errno> {
        let node = NewNode { kind: FileKind::Regular, mode, rdev: 0, symlink: Vec::new() };
        let new = IfThere::Refuse;
        match self.namespace.create(credentials, parent, name, node, new, Then::Open).await {
            Ok((attr, _)) => {
                let info = self.data.created(&attr);
                Ok(self.tell_opened(attr, info, flags))
            }
            // Another client made the file after the kernel had looked. The kernel looks again, and
            // judges what it opens.
            Err(Errno::EEXIST) if !flags.is_exclusive() => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// Notes that a handle is closed.
    pub async fn release(&self, ino: Ino) {
        self.data.release(ino);
        // No caller waits for the result. The end of the session releases the file at the latest.
        let _ = self.namespace.release(ino).await;
    }

    /// Notes that handles are closed, with one message to each shard.
    pub async fn release_all(&self, inos: &[Ino]) {
        inos.iter().for_each(|ino| self.data.release(*ino));
        // No caller waits for the result.
        let _ = self.namespace.release_all(inos).await;
    }

    /// Reads bytes of a file.
    pub fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Errno> {
        self.data.read(ino, offset, u64::from(len))
    }

    /// Writes at `offset`. `kill` says which bits that takes off.
    pub fn write(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        kill: Option<Kill>,
    ) -> Result<(), Errno> {
        self.data.write(ino, Some(offset), data, kill).map(drop)
    }

    /// Writes at the end of the file, which this kernel takes to be at `known`. `kill` says which
    /// bits that takes off.
    pub fn append(
        &self,
        ino: Ino,
        known: u64,
        data: &[u8],
        kill: Option<Kill>,
    ) -> Result<(), Errno> {
        self.data.append(ino, known, data, kill)
    }

    /// Hands all writes to the shards, for `close`.
    pub fn flush(&self, ino: Ino) -> Result<(), Errno> {
        self.data.flush(ino)
    }

    /// Makes all changes of a file or directory durable, for `fsync`.
    pub fn fsync(&self, ino: Ino) -> Result<(), Errno> {
        self.data.fsync(ino)
    }

    /// `fallocate` of `(offset, len)`, with its flags. `kill` says which bits that takes off.
    pub fn fallocate(
        &self,
        ino: Ino,
        range: (u64, u64),
        flags: u32,
        kill: Option<Kill>,
    ) -> Result<(), Errno> {
        self.data.fallocate(ino, range, Allocate::from_flags(flags)?, kill)
    }

    /// `lseek` with `SEEK_DATA` (3) or `SEEK_HOLE` (4).
    pub fn seek(&self, ino: Ino, offset: u64, whence: u32) -> Result<u64, Errno> {
        match whence {
            3 => self.data.seek(ino, offset, Seek::Data),
            4 => self.data.seek(ino, offset, Seek::Hole),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `copy_file_range` from one `(ino, offset)` to another. `kill` says which bits that takes off
    /// the target.
    pub fn copy_range(
        &self,
        from: (Ino, u64),
        to: (Ino, u64),
        len: u64,
        kill: Option<Kill>,
    ) -> Result<u64, Errno> {
        self.data.copy_range(from, to, len, kill)
    }
}
