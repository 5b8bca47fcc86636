//! Sealed records are opened, in any pieces. Records that were changed, cut, repeated or moved on
//! the way are not.

use proptest::prelude::*;

use crate::tls::pair::{pair, side};
use crate::tls::record::{
    CONTENT_MAX, Fed, HEAD, OVERHEAD, Opener, RecordError, Sealer, UPDATE_REQUESTED,
};

fn sealed(sealer: &mut Sealer, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    bytes.extend_from_slice(content);
    sealer.seal(&mut bytes, 0).unwrap();
    bytes
}

/// Feeds pieces of these lengths, over and over. Returns the content.
fn opened(
    opener: &mut Opener,
    bytes: &[u8],
    pieces: &[usize],
) -> Result<(Vec<u8>, Fed), RecordError> {
    let (mut content, mut rest, mut fed) = (Vec::new(), bytes.to_vec(), Fed::More);
    let mut pieces = pieces.iter().cycle();
    while !rest.is_empty() && fed == Fed::More {
        let length = (*pieces.next().unwrap()).clamp(1, rest.len());
        let mut piece: Vec<u8> = rest.drain(..length).collect();
        fed = opener.feed(&mut piece, |plain| content.extend_from_slice(plain))?;
        assert!(opener.pending() < CONTENT_MAX + 256 + HEAD, "more than a record is kept");
    }
    Ok((content, fed))
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A record with any content of any type.
fn record(sealer: &mut Sealer, kind: u8, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    bytes.extend_from_slice(inner);
    bytes.resize(inner.len() + OVERHEAD, 0);
    sealer.seal_one(kind, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_batch_is_one_record_where_it_fits_and_as_few_as_can_be_where_it_does_not() {
    let [(mut sealer, _), (_, mut opener)] = pair();
    for length in [1, 100, CONTENT_MAX - 1, CONTENT_MAX, CONTENT_MAX + 1, 5 * CONTENT_MAX, 1 << 20]
    {
        let bytes = sealed(&mut sealer, &content(length));
        assert_eq!(bytes.len(), length + length.div_ceil(CONTENT_MAX) * OVERHEAD);
        let (plain, fed) = opened(&mut opener, &bytes, &[usize::MAX]).unwrap();
        assert_eq!((plain, fed), (content(length), Fed::More));
        assert_eq!(opener.pending(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_comes_out_as_it_went_in_whatever_the_pieces(
        lengths in proptest::collection::vec(1_usize..40_000, 1..6),
        pieces in proptest::collection::vec(1_usize..20_000, 1..8),
        update in any::<bool>(),
    ) {
        let [(mut sealer, _), (_, mut opener)] = pair();
        if update {
            sealer.update_after = 2;
        }
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for length in lengths {
            // After what is sealed already.
            let from = bytes.len();
            bytes.extend([0; HEAD]);
            bytes.extend(content(length));
            sealer.seal(&mut bytes, from).unwrap();
            expected.extend(content(length));
        }
        let (plain, fed) = opened(&mut opener, &bytes, &pieces).unwrap();
        prop_assert!(plain == expected && fed == Fed::More && opener.pending() == 0);
    }

    #[test]
    fn records_in_another_order_or_left_out_or_repeated_are_none(
        order in proptest::collection::vec(0_usize..6, 1..12),
    ) {
        let [(mut sealer, _), (_, mut opener)] = pair();
        let records: Vec<_> = (0..6).map(|n| sealed(&mut sealer, &content(n + 1))).collect();
        let good = order.iter().enumerate().take_while(|(at, is)| at == *is).count();
        for (at, &which) in order.iter().enumerate() {
            let heard = opened(&mut opener, &records[which], &[usize::MAX]);
            if at < good {
                prop_assert_eq!(heard.unwrap().0, content(which + 1));
            } else {
                prop_assert_eq!(heard.unwrap_err(), RecordError::Forged);
            }
        }
    }
}

#[test]
fn whichever_bit_is_changed_nothing_of_the_record_comes_out() {
    let [(mut sealer, _), _] = pair();
    let good = sealed(&mut sealer, &content(60));
    for at in 0..good.len() {
        for bit in 0..8 {
            let (_, mut opener) = side(60, 10);
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            // A greater length makes the opener wait for more bytes; then it notices.
            bad.extend(content(CONTENT_MAX + 300));
            let error = opened(&mut opener, &bad, &[usize::MAX]).unwrap_err();
            match at {
                0 => assert_eq!(error, RecordError::Plain(bad[0])),
                3 | 4 => {
                    assert!(matches!(error, RecordError::Forged | RecordError::Length(_)), "{at}");
                }
                _ => assert_eq!(error, RecordError::Forged, "{at}"),
            }
            // And it opens nothing more, ever.
            assert_eq!(opened(&mut opener, &good, &[usize::MAX]).unwrap_err(), error);
        }
    }
}

#[test]
fn a_record_cut_anywhere_waits_and_is_whole_in_the_end() {
    let [(mut sealer, _), _] = pair();
    let good = sealed(&mut sealer, &content(60));
    for cut in 0..good.len() {
        let (_, mut opener) = side(60, 10);
        let (plain, _) = opened(&mut opener, &good[..cut], &[usize::MAX]).unwrap();
        assert_eq!((plain.len(), opener.pending()), (0, cut));
        assert_eq!(opened(&mut opener, &good[cut..], &[1]).unwrap().0, content(60));
    }
}

#[test]
fn what_no_record_may_be_has_its_name() {
    let is = |make: &dyn Fn(&mut Sealer) -> Vec<u8>, expected: RecordError| {
        let [(mut sealer, _), (_, mut opener)] = pair();
        let bytes = make(&mut sealer);
        assert_eq!(opened(&mut opener, &bytes, &[usize::MAX]).unwrap_err(), expected);
    };
    // After the handshake no record is in plain text, too long, or too short.
    for kind in [0, 20, 21, 22, 24, b'G', 255] {
        is(&|_| vec![kind, 3, 3, 0, 1], RecordError::Plain(kind));
    }
    for length in [0_u16, 16, CONTENT_MAX as u16 + 257, u16::MAX] {
        let [high, low] = length.to_be_bytes();
        is(&|_| vec![23, 3, 3, high, low], RecordError::Length(length));
    }
    let long = vec![1; CONTENT_MAX + 1];
    is(&|sealer| record(sealer, 23, &long), RecordError::TooLong(CONTENT_MAX + 1));
    // Zeros are no content.
    let padded = vec![0; CONTENT_MAX];
    is(&|sealer| record(sealer, 0, &padded), RecordError::Empty);
    is(&|sealer| record(sealer, 20, &[1]), RecordError::Kind(20));
    is(&|sealer| record(sealer, 24, &[1]), RecordError::Kind(24));
    // A session ticket, and a request for a certificate. Then malformed changes of keys, and one
    // that is not alone.
    is(&|sealer| record(sealer, 22, &[4, 0, 0, 1, 0]), RecordError::Handshake(4));
    is(&|sealer| record(sealer, 22, &[13, 0, 0, 1, 0]), RecordError::Handshake(13));
    let updates: [&[u8]; 5] =
        [&[], &[24, 0, 0, 1, 2], &[24, 0, 0, 2, 0, 0], &[24, 0, 0], &[24, 0, 0, 1, 0, 24]];
    for update in updates {
        is(&|sealer| record(sealer, 22, update), RecordError::Update);
    }
    is(&|sealer| record(sealer, 21, &[2]), RecordError::Alert);
    // Another key: the side's own records sent back to it.
    let [(mut sealer, mut own), _] = pair();
    let mirrored = sealed(&mut sealer, b"text");
    assert_eq!(opened(&mut own, &mirrored, &[usize::MAX]).unwrap_err(), RecordError::Forged);
}

#[test]
fn padding_is_taken_off() {
    let [(mut sealer, _), (_, mut opener)] = pair();
    // `text`, its type, and zeros: as one longer content of type 0.
    let bytes = record(&mut sealer, 0, b"text\x17\0\0\0\0\0");
    assert_eq!(opened(&mut opener, &bytes, &[usize::MAX]).unwrap(), (b"text".to_vec(), Fed::More));
}

#[test]
fn an_end_and_an_alert_are_told() {
    let [(mut sealer, _), (_, mut opener)] = pair();
    let end = [record(&mut sealer, 21, &[1, 0]), b"rest".to_vec()].concat();
    assert_eq!(opened(&mut opener, &end, &[usize::MAX]).unwrap().1, Fed::Ended);
    let [(mut sealer, _), (_, mut opener)] = pair();
    let alert = record(&mut sealer, 21, &[2, 44]);
    let Fed::Alert(alert) = opened(&mut opener, &alert, &[usize::MAX]).unwrap().1 else { panic!() };
    assert!(alert.to_string().contains("revoked"), "{alert}");
}

#[test]
fn keys_change_in_both_directions_and_a_wish_for_it_is_granted() {
    let [(mut sealer, mut own), (mut other_sealer, mut opener)] = pair();
    (sealer.update_after, other_sealer.update_after) = (5, 3);
    for round in 0..200_usize {
        let bytes = sealed(&mut sealer, &content(round + 1));
        assert_eq!(opened(&mut opener, &bytes, &[7]).unwrap().0, content(round + 1));
        let back = sealed(&mut other_sealer, &content(round + 2));
        assert_eq!(opened(&mut own, &back, &[usize::MAX]).unwrap().0, content(round + 2));
    }
    // 60 changes of keys have passed, none of them asked for.
    let [(mut sealer, _), (mut other_sealer, mut opener)] = pair();
    let mut asking = Vec::new();
    sealer.update(&mut asking, 0, UPDATE_REQUESTED).unwrap();
    let plain = sealed(&mut other_sealer, b"x").len();
    opened(&mut opener, &asking, &[usize::MAX]).unwrap();
    assert!(sealed(&mut other_sealer, b"x").len() > plain, "it changes its key before it speaks");
    assert_eq!(sealed(&mut other_sealer, b"x").len(), plain, "and once only");
}

#[test]
fn a_connection_that_only_changes_keys_is_closed() {
    let [(mut sealer, _), (_, mut opener)] = pair();
    let mut bytes = Vec::new();
    let mut at = 0;
    for _ in 0..33 {
        at += sealer.update(&mut bytes, at, UPDATE_REQUESTED).unwrap();
    }
    let error = opened(&mut opener, &bytes, &[usize::MAX]).unwrap_err();
    assert_eq!(error, RecordError::Updates);
}
