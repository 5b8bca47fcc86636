//! Frames with a right checksum and a wrong body: a liar can seal any bytes. Nothing may panic, and
//! no memory may be taken for a length that a body merely claims.

mod counting;
mod samples;

use pando_types::op::{FileAt, FileRef, Head, Op, Payload, Piece, Request};
use pando_types::{Credentials, Ino};
use pando_wire::{Decoder, FRAME_MAX, FrameError, HEADER_LEN, Message, Stream, encode};

/// Longer bodies are changed in some places only: one is a table of 64 KiB.
const WHOLE_MAX: usize = 2_000;

fn framed(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, Stream(7), message);
    bytes
}

/// Gives a frame of these bytes the right length and checksum.
fn seal(frame: &mut [u8]) {
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&frame[8..]);
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
}

fn decode(frame: &[u8]) -> Result<Option<(Stream, Message)>, FrameError> {
    let mut decoder = Decoder::new();
    decoder.feed(frame);
    decoder.message()
}

/// Where a body is changed.
fn places(frame: &[u8]) -> impl Iterator<Item = usize> {
    let step = if frame.len() > WHOLE_MAX { 997 } else { 1 };
    (HEADER_LEN..frame.len()).step_by(step)
}

/// A sealed frame is a message of its kind, or it is refused with a reason.
fn judge(frame: &mut [u8], sample: &Message) {
    seal(frame);
    let kind = frame[9];
    match decode(frame) {
        Err(error) => assert_eq!(error, FrameError::Body(kind), "{sample:?}"),
        Ok(found) => {
            let (stream, found) = found.expect("a whole frame");
            assert_eq!(stream, Stream(7));
            assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(sample));
        }
    }
}

#[test]
fn every_message_returns_as_it_was() {
    for sample in samples::all() {
        assert_eq!(decode(&framed(&sample)), Ok(Some((Stream(7), sample))));
    }
}

#[test]
fn any_byte_may_be_any_other() {
    for sample in samples::all() {
        let good = framed(&sample);
        let mut bad = good.clone();
        for at in places(&good) {
            for change in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x7f, 0xff] {
                bad[at] = good[at] ^ change;
                judge(&mut bad, &sample);
            }
            bad[at] = good[at];
        }
    }
}

#[test]
fn a_body_may_end_anywhere_or_go_on() {
    for sample in samples::all() {
        let good = framed(&sample);
        for end in places(&good) {
            let mut cut = good[..end].to_vec();
            seal(&mut cut);
            assert_eq!(decode(&cut), Err(FrameError::Body(good[9])), "{sample:?} up to {end}");
        }
        let mut long = good.clone();
        long.push(0);
        seal(&mut long);
        assert_eq!(decode(&long), Err(FrameError::Body(good[9])), "{sample:?}");
    }
}

#[test]
fn one_kind_under_the_name_of_another_is_told() {
    for sample in samples::all() {
        let good = framed(&sample);
        for kind in 1..=10 {
            let mut bad = good.clone();
            bad[9] = kind;
            seal(&mut bad);
            // A body may fit the other kind, too; else it is malformed.
            match decode(&bad) {
                Ok(Some(_)) => {}
                // This kind is not in use any more.
                other if kind == 6 => assert_eq!(other, Err(FrameError::Kind(6)), "{sample:?}"),
                other => assert_eq!(other, Err(FrameError::Body(kind)), "{sample:?}"),
            }
        }
    }
}

/// Numbers in the form that bodies have, too large for anything.
const HUGE: [&[u8]; 4] = [
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x80, 0x01],
];

#[test]
fn nothing_is_allocated_for_elements_that_are_not_there() {
    for sample in samples::all() {
        let good = framed(&sample);
        for at in places(&good) {
            for huge in HUGE {
                let mut bad = [&good[..at], huge, &good[at + 1..]].concat();
                seal(&mut bad);
                let mut decoder = Decoder::new();
                decoder.feed(&bad);
                let (_, most) = counting::most_allocated(|| decoder.message());
                // Elements take more memory than bytes of a frame, up to a known factor.
                let bound = 4_096 + 100 * bad.len();
                assert!(most <= bound, "{most} bytes for a frame of {}: {sample:?}", bad.len());
            }
        }
    }
}

/// Bytes that make small elements: numbers, and the first variants of enums.
const SMALL: [u8; 5] = [0, 1, 2, 3, 7];
/// Length of the frames that are filled with them.
const FILLED: usize = 16 << 10;

/// Wherever a list may be, there is one with as many elements as fit, each as small as possible.
/// Messages of clients and strangers take at most eight times their length in memory; a client's
/// request may take half a megabyte more. Messages of servers take at most thirty-two times their
/// length.
#[test]
fn no_message_takes_many_times_its_length_in_memory() {
    let mut refused = 0;
    for sample in samples::all() {
        let good = framed(&sample);
        let is_of_servers =
            matches!(sample, Message::Reply(_) | Message::Peer(_) | Message::Told(_));
        let (times, more) = match sample {
            _ if is_of_servers => (32, 512 << 10),
            Message::Request(_) => (8, 512 << 10),
            _ => (8, 8 << 10),
        };
        for at in places(&good).step_by(if good.len() > WHOLE_MAX { 16 } else { 1 }) {
            for (small, bytes) in SMALL.into_iter().flat_map(|small| {
                // As many elements as there are bytes left for them.
                (1..=4).map(move |bytes| (small, bytes))
            }) {
                let count = (FILLED / bytes) as u16;
                let length = [count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8];
                let mut bad = [&good[..at], &length].concat();
                bad.resize(at + length.len() + FILLED, small);
                seal(&mut bad);
                let mut decoder = Decoder::new();
                decoder.feed(&bad);
                let (read, most) = counting::most_allocated(|| decoder.message());
                let allowed = times * bad.len() + more;
                assert!(most <= allowed, "{most} bytes for {}: {sample:?} at {at}", bad.len());
                let heap = decoder.heap();
                assert!(heap <= allowed, "{heap} bytes for {}: {sample:?} at {at}", bad.len());
                refused += usize::from(matches!(read, Err(FrameError::Elements(_))));
            }
        }
    }
    assert!(refused > 100, "{refused}: those that are too much are refused as such");
}

/// The memory that is counted for a waiting request is what it takes.
#[test]
fn a_message_weighs_what_its_lists_take() {
    let file = FileRef { ino: Ino(7), at: FileAt::Link };
    let pieces = vec![Piece { offset: 1, payload: Payload::Hole(1) }; 40];
    let op = Op::WriteData { file, base: None, pieces, mtime: None, kill: None };
    let by = Credentials::ROOT;
    let request = Request { head: Head::default(), credentials: by, op, trail: None };
    let mut decoder = Decoder::new();
    decoder.feed(&framed(&Message::Request(request)));
    let (read, most) = counting::most_allocated(|| decoder.message());
    assert!(read.is_ok() && most <= decoder.heap() && decoder.heap() >= 40 * size_of::<Piece>());
    assert!(matches!(read, Ok(Some((_, Message::Request(_))))));
}

/// A small file that was written byte by byte, with gaps, is flushed at once.
#[test]
fn as_many_pieces_as_a_mount_sends_are_taken() {
    let piece = |n: u64| Piece { offset: 2 * n, payload: Payload::Inline(vec![1]) };
    let file = FileRef { ino: Ino(7), at: FileAt::Link };
    let pieces = (0..2_048).map(piece).collect();
    let op = Op::WriteData { file, base: None, pieces, mtime: None, kill: None };
    let by = Credentials::ROOT;
    let request = Request { head: Head::default(), credentials: by, op, trail: None };
    let mut decoder = Decoder::new();
    decoder.feed(&framed(&Message::Request(request)));
    assert!(matches!(decoder.message(), Ok(Some((_, Message::Request(_))))));
}

#[test]
fn four_bytes_take_no_room_for_what_they_announce() {
    for length in [HEADER_LEN as u32, 1 << 20, FRAME_MAX, FRAME_MAX + 1, u32::MAX] {
        let (decoder, most) = counting::most_allocated(|| {
            let mut decoder = Decoder::new();
            decoder.feed(&length.to_le_bytes());
            let _ = decoder.message();
            decoder
        });
        assert!(most < 1_024, "{most} bytes for a length of {length}");
        assert_eq!(decoder.pending(), 4);
    }
}
