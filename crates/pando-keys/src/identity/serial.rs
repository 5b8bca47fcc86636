//! Serial numbers of certificates.

use core::fmt;

/// Serial number of a certificate. It is random; its first byte is 0x40 to 0x7f, so that it takes
/// 16 bytes in DER.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub [u8; 16]);

/// 32 lower-case hexadecimal digits.
impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serial({self})")
    }
}
