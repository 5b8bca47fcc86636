//! Little-endian fields from untrusted bytes, and the checksum over structures.

/// Reads fields one after another. Returns `None` once the bytes run out. Never panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number in groups of 7 bits, the lowest group first. The high bit of a byte says that more
    /// follow.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Bytes that are preceded by their length as a varint.
    pub(crate) fn sized(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.varint()?).ok()?;
        self.bytes(count)
    }
}

/// Appends a number as [`Fields::varint`] reads it.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends bytes as [`Fields::sized`] reads them.
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A CRC-32C that is seeded with the place of the bytes: database, file number, offset. So a
/// structure in the wrong place never passes for a genuine one, nor does one that a user stored in
/// a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal(u32);

impl Seal {
    pub(crate) fn of_file(magic: [u8; 8], database_id: u64, number: u64) -> Seal {
        Seal(crc32c::crc32c(&magic)).over(&database_id.to_le_bytes()).over(&number.to_le_bytes())
    }

    /// A seal for tests.
    #[cfg(test)]
    pub(crate) const fn fixed(value: u32) -> Seal {
        Seal(value)
    }

    pub(crate) fn at(self, offset: u64) -> Seal {
        self.over(&offset.to_le_bytes())
    }

    pub(crate) fn over(self, bytes: &[u8]) -> Seal {
        Seal(crc32c::crc32c_append(self.0, bytes))
    }

    pub(crate) fn value(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_return_at_every_length_and_overlong_ones_are_refused() {
        for shift in 0..64 {
            for number in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, number);
                let mut fields = Fields(&out);
                assert_eq!(fields.varint(), Some(number));
                assert!(fields.0.is_empty());
                assert_eq!(Fields(&out[..out.len() - 1]).varint(), None);
            }
        }
        assert_eq!(Fields(&[0xff; 9]).varint(), None);
        assert_eq!(
            Fields(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint(),
            None
        );
        assert_eq!(Fields(&[0x80; 11]).varint(), None);
    }
}
