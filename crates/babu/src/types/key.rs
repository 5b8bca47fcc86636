//! A key that owns its bytes. A short key needs no allocation.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// Longest key in bytes that is kept inline. A key of Pando has 25 bytes.
pub(crate) const INLINE_BYTES: usize = 30;

/// Length of the longest key, in bytes.
pub const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// The longest value, in bytes: 256 MiB.
pub const MAX_VALUE_BYTES: usize = 1 << 28;

/// A key. Compares as its bytes do.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Heap(Box<[u8]>),
}

impl Key {
    /// The key of these two parts, one after the other.
    pub(crate) fn join(head: &[u8], tail: &[u8]) -> Key {
        let len = head.len() + tail.len();
        if len <= INLINE_BYTES {
            let mut bytes = [0; INLINE_BYTES];
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..len].copy_from_slice(tail);
            Key(Repr::Inline { len: len as u8, bytes })
        } else {
            Key(Repr::Heap([head, tail].concat().into()))
        }
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Key {
        Key::join(bytes, &[])
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.escape_ascii())
    }
}

pub(crate) const HEAD_BYTES: usize = size_of::<u64>();

/// The first bytes of a key as a number, padded with zeros. If two heads differ, their order is
/// that of the keys.
#[inline]
pub(crate) fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; HEAD_BYTES];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

/// The first key after every key that begins with `prefix`. `None` if there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

/// The first key after `key`.
pub(crate) fn successor(key: &[u8]) -> Key {
    Key::join(key, &[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_its_last_byte_below_255_is_one_higher() {
        for (prefix, end) in [
            (&b"ab"[..], Some(&b"ac"[..])),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"", None),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    #[test]
    fn heads_are_in_the_order_of_keys() {
        let keys = [&b""[..], b"\0", b"a", b"a\0", b"abcdefg", b"abcdefgh", b"abcdefghi", b"b"];
        assert!(keys.is_sorted());
        assert!(keys.map(head).is_sorted());
        assert!(head(b"abcdefg") < head(b"abcdefgh"));
    }

    #[test]
    fn keys_compare_as_their_bytes_whether_inline_or_not() {
        let long = [7u8; 31];
        assert!(Key::from(&long[..30]) < Key::from(&long[..]));
        assert_eq!(Key::join(&long[..30], &long[30..]), Key::from(&long[..]));
        assert_eq!(std::mem::size_of::<Key>(), 32);
    }
}
