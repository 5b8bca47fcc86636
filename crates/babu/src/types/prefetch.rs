//! Prefetches: hints to the processor about memory that is needed next. They do not change what a
//! program computes.
#![allow(unsafe_code, reason = "measured: see each function")]

const LINE_BYTES: usize = 64;

/// Prefetches the cache lines of `bytes`, which will be read soon.
///
/// A tree of millions of entries is not in the processor's caches. Each first touch of a line costs
/// some 100 ns. A search that touches three lines in turn waits three times. Lines that are
/// prefetched together arrive together. (Measured at a million records, by CPU time, on a busy
/// machine, in millions a second with and without. Scanned entries: 33 and 11; lookups: 1.7 and
/// 1.0, of absent keys 3.0 and 2.0; creates: 2.2 and 1.5.)
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_line(line);
    }
    prefetch_line(&bytes[bytes.len().saturating_sub(1)..]);
}

/// Prefetches the cache line in which `bytes` begins.
#[inline(always)]
pub(crate) fn prefetch_line(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch neither faults nor changes anything,
        // whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
