//! Counts frames in a stream of bytes that may be cut anywhere.

/// Bytes of a frame's length field.
const LENGTH: usize = 4;

/// Position of a stream within its present frame.
#[derive(Default)]
pub(super) struct Frames {
    length: [u8; LENGTH],
    /// Bytes of the length field that have arrived.
    known: usize,
    /// Bytes of the frame that have not arrived yet.
    rest: usize,
}

impl Frames {
    /// Takes the next bytes of the stream. Returns how many frames end in them.
    pub(super) fn ended(&mut self, mut bytes: &[u8]) -> u64 {
        let mut ended = 0;
        while let Some(&first) = bytes.first() {
            if self.known < LENGTH {
                self.length[self.known] = first;
                self.known += 1;
                bytes = &bytes[1..];
                self.rest = u32::from_le_bytes(self.length) as usize;
                if self.known < LENGTH || self.rest > 0 {
                    continue;
                }
            } else {
                let taken = self.rest.min(bytes.len());
                bytes = &bytes[taken..];
                self.rest -= taken;
            }
            if self.rest == 0 {
                ended += 1;
                self.known = 0;
                self.length = [0; LENGTH];
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let mut bytes = Vec::new();
        let lengths = [0_u32, 1, 3, 4, 5, 300, 0, 70_000, 2];
        for length in lengths {
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.resize(bytes.len() + length as usize, 0xFF);
        }
        for step in [1, 2, 3, 5, 7, 64, 1_000, bytes.len()] {
            let mut frames = Frames::default();
            let ended: u64 = bytes.chunks(step).map(|piece| frames.ended(piece)).sum();
            assert_eq!(ended, lengths.len() as u64, "in pieces of {step}");
        }
        let mut frames = Frames::default();
        assert_eq!(frames.ended(&bytes[..bytes.len() - 1]), lengths.len() as u64 - 1);
    }
}
