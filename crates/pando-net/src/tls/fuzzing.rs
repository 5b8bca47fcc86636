//! Records that the other side has sealed, and bytes that it has not, in pieces.

use super::pair::pair;
use super::record::{CONTENT_MAX, Fed, HEAD, OVERHEAD};

/// A record may have so many zeros besides.
const PADDING: usize = 256;

/// An opener gets records and other bytes, as `input` says: of each part what it is, its length
/// (two bytes), and its bytes. It is plain bytes if what it is has its highest bit set; else the
/// true type of a record that is sealed with the right key.
///
/// # Panics
///
/// If the opener breaks a promise: it keeps no more than one record, and an error is the last that
/// it says.
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
