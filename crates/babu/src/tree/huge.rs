//! Asking for huge pages.
#![allow(unsafe_code, reason = "an advice to the kernel without effect on what a program computes")]

/// A page that spares 511 others.
#[cfg(target_os = "linux")]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Advises the kernel to back the vector's memory with huge pages, if it is large enough to have some.
pub(crate) fn advise_huge(memory: &Vec<u8>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let unaligned = memory.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let len = memory.capacity().saturating_sub(unaligned) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if len > 0 {
            let start = memory.as_ptr().wrapping_add(unaligned);
            // SAFETY: the range lies within the vector's allocation, and the advice changes neither contents nor
            // protection of memory. Refused, which is no harm, where the kernel knows no huge pages.
            let _ = unsafe { madvise(start.cast_mut().cast(), len, Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
