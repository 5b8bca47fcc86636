//! Telling the processor what will be read soon.
//!
//! A tree of millions of entries is not in the processor's caches: each first touch of a line costs some 100 ns, and a
//! search that touches three lines one after the other waits three times. Asked for together they arrive together.
#![allow(unsafe_code, reason = "an instruction without effect on what a program computes")]

const LINE_BYTES: usize = 64;

/// Asks for all lines that `bytes` begins in or covers.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_line(line);
    }
}

#[inline(always)]
fn prefetch_line(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch neither faults nor changes anything, whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Asks for the next lines of a leaf that a scan is about to reach, while it reads the one before.
pub(crate) struct Ahead<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl<'a> Ahead<'a> {
    /// To be called for all of `bytes` within `calls` calls.
    pub(crate) fn new(bytes: &'a [u8], calls: usize) -> Ahead<'a> {
        Ahead { bytes, step: bytes.len().div_ceil(calls.max(1)).next_multiple_of(LINE_BYTES) }
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        let (now, later) = self.bytes.split_at(self.step.min(self.bytes.len()));
        self.bytes = later;
        prefetch(now);
    }
}
