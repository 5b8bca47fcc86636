//! Little-endian fields out of byte slices that may hold anything, and the checksum over them.

/// Reads fields one after another; `None` once the bytes run out. Never panics.
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
}

/// CRC-32C, seeded with the place the bytes belong to (database, file number, offset): a structure that ended up in
/// the wrong place, or that a user stored inside a value, never passes for a genuine one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal(u32);

impl Seal {
    pub(crate) fn of_file(magic: [u8; 8], database_id: u64, number: u64) -> Seal {
        Seal(crc32c::crc32c(&magic)).over(&database_id.to_le_bytes()).over(&number.to_le_bytes())
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
