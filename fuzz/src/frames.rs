//! Frames in pieces. The first byte gives the length of pieces, and says whether checksums are
//! corrected: no fuzzer guesses them.

use pando_wire::{Decoder, FRAME_MAX, HEADER_LEN, Message, Stream, encode};

/// Corrects the checksum of each whole frame.
pub fn seal(mut bytes: &mut [u8]) {
    while let Some(length) = bytes.first_chunk::<4>().copied().map(u32::from_le_bytes) {
        let length = length as usize;
        if length < HEADER_LEN - 4 || length > bytes.len() - 4 {
            return;
        }
        let (frame, rest) = bytes.split_at_mut(4 + length);
        let checksum = crc32c::crc32c(&frame[8..]);
        frame[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes = rest;
    }
}

fn decode(bytes: &[u8], piece: usize) -> Vec<(Stream, Message)> {
    let mut decoder = Decoder::new();
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            match decoder.message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.message(), Err(error), "nothing but that error");
                    assert!(!error.to_string().is_empty());
                    return messages;
                }
            }
        }
        assert!(decoder.pending() <= FRAME_MAX as usize + piece.len());
    }
    messages
}

pub fn run(input: &[u8]) {
    let Some((&how, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if how & 1 == 0 {
        seal(&mut bytes);
    }
    let whole = decode(&bytes, bytes.len().max(1));
    assert_eq!(whole, decode(&bytes, 1 + usize::from(how / 2)), "pieces say the same");
    // Messages that were decoded can be encoded, and are decoded to equal ones.
    let mut again = Vec::new();
    whole.iter().for_each(|(stream, message)| encode(&mut again, *stream, message));
    assert_eq!(whole, decode(&again, again.len().max(1)));
}
