//! The memory itself: a file without a name, mapped by the process that serves. All `unsafe` code
//! of this crate is here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::header::{CHUNKS_MAX, start};
use crate::memory::Memory;

/// Length of a word, bytes.
const WORD: usize = size_of::<AtomicU64>();

/// A file of the machine's memory, sealed against shrinking. It is there as long as any process has
/// its descriptor.
#[derive(Debug)]
pub struct Mapped {
    file: OwnedFd,
    /// Begin of a mapping of [`LEN`](Self::LEN) bytes, which is there until this is dropped.
    begin: *mut AtomicU64,
    /// Words of it that the file has. The others must not be touched.
    words: usize,
}

// SAFETY: nothing refers to the thread that has made the mapping. All access is by atomic words.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Length of the mapping, bytes: all that the file may ever have.
    const LEN: usize = start::<Self>(CHUNKS_MAX) * WORD;

    /// Makes a new one, without words.
    pub fn create() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(c"pando-mount", flags)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK)?;
        Self::map(file, 0)
    }

    /// Maps that of a predecessor. Fails if it might shrink, and if there is no room for all of it.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            let text = "the file of the mount's records is not sealed against shrinking";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let len = rustix::fs::fstat(&file)?.st_size.cast_unsigned();
        // A file that is too long has words that nobody can name.
        let words = (len.min(Self::LEN as u64)) as usize / WORD;
        if words > 0 {
            allocate(&file, words)?;
        }
        Self::map(file, words)
    }

    fn map(file: OwnedFd, words: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no other mapping is replaced.
        let begin = unsafe {
            let flags = MapFlags::SHARED;
            rustix::mm::mmap(std::ptr::null_mut(), Self::LEN, protection, flags, &file, 0)?
        };
        Ok(Self { file, begin: begin.cast(), words })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page. `words` words of it are in the file and allocated,
        // and the file cannot shrink. Other processes change them by atomic stores, or not at all.
        unsafe { std::slice::from_raw_parts(self.begin, self.words) }
    }
}

impl Memory for Mapped {
    const CHUNK: usize = (4 << 20) / WORD;

    fn len(&self) -> usize {
        self.words
    }

    fn load(&self, at: usize) -> u64 {
        u64::from_le(self.words()[at].load(Ordering::Acquire))
    }

    fn store(&mut self, at: usize, word: u64) {
        self.words()[at].store(word.to_le(), Ordering::Release);
    }

    fn reach(&mut self, words: usize) -> io::Result<()> {
        if words > self.words {
            allocate(&self.file, words)?;
            self.words = words;
        }
        Ok(())
    }
}

impl AsFd for Mapped {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `map` has made this mapping, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.begin.cast(), Self::LEN) };
    }
}

/// Gives the file's first words room, so that no store meets a full machine.
fn allocate(file: &OwnedFd, words: usize) -> io::Result<()> {
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, (words * WORD) as u64)?;
    Ok(())
}
