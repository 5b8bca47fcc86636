//! The memory of an entry: the kernel writes a request to it, and reads the answer from it.
//!
//! ```text
//! 0: in or out header   128: header of the operation   256: UringEntry   512: 2 iovecs   4096: payload
//! ```
//!
//! Invariants:
//! 1. Between COMMIT_AND_FETCH (or REGISTER) and its completion the memory is the kernel's.
//! 2. Otherwise it belongs to one request. Who takes the request out of
//!    [`Pending`](crate::device::pending::Pending) writes its answer. A handler reads a copy.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use zerocopy::{FromBytes, IntoBytes};

use crate::protocol::abi::{self, uring};
use crate::protocol::init::WRITE_SIZE_MAX;

/// Where the two `iovec`s of REGISTER are.
const IOVECS: usize = 512;
/// Where the payload begins.
const PAYLOAD: usize = 4096;
/// Largest payload: contents of a read or a write.
const PAYLOAD_MAX: usize = WRITE_SIZE_MAX as usize;
const SIZE: usize = PAYLOAD + PAYLOAD_MAX;

/// The memory of one entry. The kernel gives pages to it as they are touched.
#[derive(Debug)]
pub(super) struct Entry(NonNull<u8>);

// SAFETY: the mapping belongs to this value alone, and is not bound to a thread.
unsafe impl Send for Entry {}

impl Entry {
    pub(super) fn new() -> io::Result<Self> {
        let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), SIZE, read_write, private)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let at = |offset| start.as_ptr().wrapping_add(offset).cast();
        let vectors = [
            libc::iovec { iov_base: at(0), iov_len: uring::HEADERS },
            libc::iovec { iov_base: at(PAYLOAD), iov_len: PAYLOAD_MAX },
        ];
        // SAFETY: the vectors fit between the headers and the payload, at an aligned offset.
        unsafe { start.add(IOVECS).cast().write(vectors) };
        Ok(Self(start))
    }

    /// Address of the `iovec`s for REGISTER.
    pub(super) fn vectors(&self) -> u64 {
        self.0.addr().get() as u64 + IOVECS as u64
    }

    /// Number of the request for COMMIT_AND_FETCH, before its answer is written.
    pub(super) fn commit_id(&mut self) -> u64 {
        let told = abi::UringEntry::read_from_prefix(&self.bytes()[uring::ENTRY..]);
        told.map_or(0, |(told, _)| told.commit_id)
    }

    /// Copies the request that the kernel has written to the beginning of `buffer`, in one piece.
    /// Returns its length. `None`: it makes no sense.
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let memory = self.bytes();
        let (header, _) = abi::InHeader::read_from_prefix(memory).ok()?;
        let (told, _) = abi::UringEntry::read_from_prefix(&memory[uring::ENTRY..]).ok()?;
        let (len, payload) = (header.len as usize, told.payload_sz as usize);
        let own = len.checked_sub(size_of::<abi::InHeader>())?.checked_sub(payload)?;
        let parts = [
            memory.get(..size_of::<abi::InHeader>())?,
            memory.get(uring::OP_IN..uring::OP_IN + own.min(uring::ENTRY - uring::OP_IN))?,
            memory.get(PAYLOAD..PAYLOAD + payload)?,
        ];
        let mut rest = buffer.get_mut(..len)?;
        for part in parts {
            let (place, after) = rest.split_at_mut_checked(part.len())?;
            place.copy_from_slice(part);
            rest = after;
        }
        rest.is_empty().then_some(len)
    }

    /// Writes an answer. Returns false, and writes nothing, if it is too long.
    pub(super) fn answer(&mut self, unique: u64, errno: i32, parts: &[&[u8]]) -> bool {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        if payload > PAYLOAD_MAX {
            return false;
        }
        let memory = self.bytes();
        let len = (size_of::<abi::OutHeader>() + payload) as u32;
        let header = abi::OutHeader { len, error: -errno, unique };
        memory[..size_of::<abi::OutHeader>()].copy_from_slice(header.as_bytes());
        let told = abi::UringEntry { payload_sz: payload as u32, ..Default::default() };
        memory[uring::ENTRY..uring::HEADERS].copy_from_slice(told.as_bytes());
        let mut at = PAYLOAD;
        for part in parts {
            memory[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        true
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: all of the mapping is readable, writable and initialized with zeros. The kernel
        // does not write to it now (invariant 1): the queue calls this only for an entry whose
        // command is complete.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), SIZE) }
    }

    /// Gives the memory back. The kernel must not have the entry any more.
    pub(super) fn free(self) {
        // SAFETY: the mapping is this value's, which ends here. The kernel has no command for it.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes what the kernel would.
    fn write(entry: &mut Entry, own: &[u8], payload: &[u8], payload_sz: u32) {
        let len = (size_of::<abi::InHeader>() + own.len() + payload.len()) as u32;
        let header = abi::InHeader { len, unique: 6, ..Default::default() };
        let told = abi::UringEntry { commit_id: 6, payload_sz, ..Default::default() };
        let memory = entry.bytes();
        memory[..40].copy_from_slice(header.as_bytes());
        memory[uring::OP_IN..uring::OP_IN + own.len()].copy_from_slice(own);
        memory[uring::ENTRY..uring::HEADERS].copy_from_slice(told.as_bytes());
        memory[PAYLOAD..PAYLOAD + payload.len()].copy_from_slice(payload);
    }

    #[test]
    fn a_request_is_put_together_and_its_answer_written() {
        let mut entry = Entry::new().unwrap();
        let mut buffer = vec![0; SIZE];
        write(&mut entry, b"own header", b"name\0", 5);
        assert_eq!(entry.take(&mut buffer), Some(55));
        assert_eq!(entry.commit_id(), 6);
        assert_eq!(&buffer[40..55], b"own headername\0");
        assert!(entry.answer(6, libc::ENOENT, &[b"ab", b"c"]));
        let memory = entry.bytes();
        let (out, _) = abi::OutHeader::read_from_prefix(memory).unwrap();
        assert_eq!((out.len, out.error, out.unique), (19, -libc::ENOENT, 6));
        assert_eq!(&memory[PAYLOAD..PAYLOAD + 5], b"abce\0");
        assert!(!entry.answer(6, 0, &[&vec![0; PAYLOAD_MAX + 1]]));
        entry.free();
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        let mut entry = Entry::new().unwrap();
        let mut buffer = vec![0; SIZE];
        for payload_sz in [16, u32::MAX] {
            write(&mut entry, b"own header", b"name\0", payload_sz);
            assert_eq!(entry.take(&mut buffer), None);
        }
        write(&mut entry, &[1; 128], b"", 0);
        entry.bytes()[..4].copy_from_slice(&1000u32.to_ne_bytes());
        assert_eq!(entry.take(&mut buffer), None);
        entry.free();
    }
}
