//! Feeds an opener with sealed records and other bytes, in pieces.

use crate::tls::pair::pair;
use crate::tls::record::{CONTENT_MAX, Fed, HEAD, OVERHEAD};

/// Zeros that a record may have besides its content.
const PADDING: usize = 256;

/// Feeds an opener with records and other bytes, as `input` says. Each part of it has a kind, a
/// length (two bytes), and bytes. If the highest bit of the kind is set, the bytes are fed as they
/// are. Else they become a record with the right key and with the kind as its true type.
///
/// # Panics
///
/// If the opener breaks a promise: it keeps no more than one record, and after an error it returns
/// only that error.
pub fn records(input: &[u8]) {
    let [(mut sealer, _), (_, mut opener)] = pair();
    let mut rest = input;
    while let [kind, low, high, more @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let (part, next) = more.split_at(length.min(more.len()).min(CONTENT_MAX + PADDING));
        rest = next;
        let mut bytes = part.to_vec();
        if kind & 0x80 == 0 {
            bytes.splice(..0, [0; HEAD]);
            bytes.resize(part.len() + OVERHEAD, 0);
            sealer.seal_one(*kind, &mut bytes).expect("there is a key");
        }
        let (fed, mut said) = (bytes.len(), 0);
        let before = opener.pending();
        match opener.feed(&mut bytes, |content| said += content.len()) {
            Ok(Fed::More) => {}
            Ok(Fed::Ended | Fed::Alert(_)) => return,
            Err(error) => {
                assert_eq!(opener.feed(&mut [1; 40], |_| panic!("it says more")), Err(error));
                return;
            }
        }
        assert!(said <= before + fed, "{said} bytes out of {fed}");
        assert!(opener.pending() < HEAD + CONTENT_MAX + PADDING, "more than a record is kept");
    }
}
