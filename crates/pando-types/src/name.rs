//! One component of a path. Its constructor checks it.

use alloc::sync::Arc;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::Errno;

/// A valid file name: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`. Other bytes are
/// allowed, UTF-8 or not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Longest name, bytes: Linux' `NAME_MAX`.
    pub const MAX_LEN: usize = 255;

    /// Makes a name of `bytes`. `ENAMETOOLONG` beyond 255 bytes. `ENOENT` for the empty name, as in
    /// Linux. `EINVAL` for `/`, NUL, `.` and `..`.
    pub fn new(bytes: &[u8]) -> Result<Self, Errno> {
        match bytes {
            [] => Err(Errno::ENOENT),
            b"." | b".." => Err(Errno::EINVAL),
            _ if bytes.len() > Self::MAX_LEN => Err(Errno::ENAMETOOLONG),
            _ if bytes.iter().any(|b| matches!(b, b'/' | 0)) => Err(Errno::EINVAL),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// The bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

// As a byte string. Element by element gives identical bytes, and costs several times the work.
impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl serde::de::Visitor<'_> for Bytes {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of a file name")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Name, E> {
                Name::new(bytes).map_err(|_| E::custom("not a valid file name"))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_linux_checks_them() {
        let cases: [(&[u8], Result<(), Errno>); 9] = [
            (b"a", Ok(())),
            (&[b'x'; 255], Ok(())),
            (b"\xff\xfe not utf-8 \n", Ok(())),
            (b"...", Ok(())),
            (b"", Err(Errno::ENOENT)),
            (&[b'x'; 256], Err(Errno::ENAMETOOLONG)),
            (b"a/b", Err(Errno::EINVAL)),
            (b"a\0", Err(Errno::EINVAL)),
            (b"..", Err(Errno::EINVAL)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Name::new(bytes).map(|_| ()), expected, "{}", bytes.escape_ascii());
        }
    }
}
