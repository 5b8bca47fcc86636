//! Frames, and a buffer that collects whole frames from a socket.

use std::io;
use std::ops::Range;

/// Bytes of a frame without its length field.
pub(super) const PAYLOAD: usize = 64;
/// Bytes of a whole frame.
pub(super) const FRAME: usize = 4 + PAYLOAD;
/// Bytes that one `read` may take.
pub(super) const BUFFER: usize = 64 << 10;

/// Appends the frame with this number.
pub(super) fn put(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(&(PAYLOAD as u32).to_le_bytes());
    to.extend_from_slice(&number.to_le_bytes());
    to.resize(to.len() + PAYLOAD - 8, 0x5A);
}

/// The number in a whole frame.
pub(super) fn number(frame: &[u8]) -> io::Result<u64> {
    check(frame)?;
    let digits = frame[4..12].try_into().expect("eight bytes");
    Ok(u64::from_le_bytes(digits))
}

fn check(frame: &[u8]) -> io::Result<()> {
    let is_right = frame[..4] == (PAYLOAD as u32).to_le_bytes()
        && frame[12..].iter().all(|&byte| byte == 0x5A);
    if is_right { Ok(()) } else { Err(io::Error::other("a frame came back as it was not sent")) }
}

/// Bytes that were read and are not used yet.
pub(super) struct Inbox {
    bytes: Box<[u8]>,
    filled: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; BUFFER].into_boxed_slice(), filled: 0 }
    }

    /// The space for the next `read`.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Notes that `len` bytes were read. Returns the range of whole frames, which the caller gives
    /// to [`Inbox::used`] afterwards.
    pub(super) fn read(&mut self, len: usize) -> Range<usize> {
        self.filled += len;
        0..self.filled - self.filled % FRAME
    }

    pub(super) fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Removes frames that the caller has used.
    pub(super) fn used(&mut self, range: Range<usize>) {
        self.bytes.copy_within(range.end..self.filled, 0);
        self.filled -= range.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_whole_however_they_arrive() {
        let mut sent = Vec::new();
        (0..100).for_each(|number| put(&mut sent, number));
        for step in [1, 7, FRAME - 1, FRAME, 3 * FRAME + 5] {
            let (mut inbox, mut numbers) = (Inbox::new(), Vec::new());
            for piece in sent.chunks(step) {
                inbox.room()[..piece.len()].copy_from_slice(piece);
                let whole = inbox.read(piece.len());
                numbers.extend(inbox.get(whole.clone()).chunks(FRAME).map(|f| number(f).unwrap()));
                inbox.used(whole);
            }
            assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        }
        sent[FRAME - 1] = 0;
        assert!(number(&sent[..FRAME]).is_err());
    }
}
