//! Reads what [`Writer`](super::writer::Writer) writes, and accounts for the memory that the value
//! takes.
//!
//! 1. Each element of a list counts with its size in memory. An element may be one byte on the wire
//!    and a hundred in memory, so a sender could exhaust its reader's memory.
//! 2. The reader refuses a value that exceeds its limit before it allocates for the next element.
//! 3. Text and byte strings do not count: in memory they are as long as on the wire.
//! 4. Space for a list is allocated by what is left to read, not by the length it claims. It may be
//!    twice what the elements take.

use core::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};

use postcard::Error;

type Outcome<T> = Result<T, Error>;

/// Bytes on the wire assumed of an element, when space for a list is reserved in advance.
const ELEMENT_BYTES: usize = 16;

/// Decoder over a slice.
pub(super) struct Reader<'de> {
    rest: &'de [u8],
    /// Bytes that elements of lists take so far.
    pub(super) taken: usize,
    most: usize,
}

impl<'de> Reader<'de> {
    pub(super) const fn new(bytes: &'de [u8], most: usize) -> Self {
        Self { rest: bytes, taken: 0, most }
    }

    /// Reads a value that must fill the rest of the slice.
    pub(super) fn value<T: Deserialize<'de>>(&mut self) -> Outcome<T> {
        let value = T::deserialize(&mut *self)?;
        if self.rest.is_empty() { Ok(value) } else { Err(Error::custom("more")) }
    }

    /// Whether the value was refused because its elements exceed the limit.
    pub(super) const fn is_too_much(&self) -> bool {
        self.taken > self.most
    }

    #[inline]
    fn count(&mut self, bytes: usize) -> Outcome<()> {
        self.taken += bytes;
        if self.is_too_much() { Err(Error::custom("too much")) } else { Ok(()) }
    }

    #[inline]
    fn byte(&mut self) -> Outcome<u8> {
        let (byte, rest) = self.rest.split_first().ok_or(Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    fn take(&mut self, len: usize) -> Outcome<&'de [u8]> {
        let (bytes, rest) =
            self.rest.split_at_checked(len).ok_or(Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A number of at most `bits` bits, seven in a byte. A longer one is an error.
    #[inline]
    fn number(&mut self, bits: u32) -> Outcome<u64> {
        let mut number = 0;
        for shift in (0..bits).step_by(7) {
            let byte = self.byte()?;
            let digit = u64::from(byte & 0x7f);
            if shift + 7 > bits && digit >> (bits - shift) != 0 {
                break;
            }
            number |= digit << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Error::DeserializeBadVarint)
    }

    fn wide_number(&mut self) -> Outcome<u128> {
        const BITS: u32 = u128::BITS;
        let mut number = 0;
        for shift in (0..BITS).step_by(7) {
            let byte = self.byte()?;
            let digit = u128::from(byte & 0x7f);
            if shift + 7 > BITS && digit >> (BITS - shift) != 0 {
                break;
            }
            number |= digit << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Error::DeserializeBadVarint)
    }

    #[inline]
    fn len(&mut self) -> Outcome<usize> {
        usize::try_from(self.number(64)?).map_err(|_| Error::DeserializeBadVarint)
    }

    #[inline]
    fn bytes(&mut self) -> Outcome<&'de [u8]> {
        let len = self.len()?;
        self.take(len)
    }

    fn text(&mut self) -> Outcome<&'de str> {
        core::str::from_utf8(self.bytes()?).map_err(|_| Error::DeserializeBadUtf8)
    }
}

#[inline]
const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// The `left` remaining elements of a list, or fields of a struct.
struct Parts<'a, 'de, Counted> {
    reader: &'a mut Reader<'de>,
    left: usize,
    counted: PhantomData<Counted>,
}

/// Elements of a list. They are on the heap, so they count.
struct Elements;
/// Fields of a struct. They count with the struct that holds them.
struct Fields;

trait Count {
    const COUNTS: bool;
}

impl Count for Elements {
    const COUNTS: bool = true;
}

impl Count for Fields {
    const COUNTS: bool = false;
}

impl<'a, 'de, Counted> Parts<'a, 'de, Counted> {
    #[inline]
    fn new(reader: &'a mut Reader<'de>, left: usize) -> Self {
        Self { reader, left, counted: PhantomData }
    }
}

impl<'de, Counted: Count> SeqAccess<'de> for Parts<'_, 'de, Counted> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Outcome<Option<T::Value>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if Counted::COUNTS {
            self.reader.count(size_of::<T::Value>())?;
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        let most = if Counted::COUNTS { self.reader.rest.len() / ELEMENT_BYTES } else { self.left };
        Some(self.left.min(most))
    }
}

impl<'de> MapAccess<'de> for Parts<'_, 'de, Elements> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Outcome<Option<K::Value>> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Outcome<V::Value> {
        self.reader.count(size_of::<V::Value>())?;
        seed.deserialize(&mut *self.reader)
    }
}

macro_rules! numbers {
    ($($method:ident: $visit:ident($reader:ident) = $value:expr;)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Outcome<V::Value> {
                let $reader = self;
                visitor.$visit($value)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    numbers! {
        deserialize_u8: visit_u8(it) = it.byte()?;
        deserialize_u16: visit_u16(it) = it.number(16)? as u16;
        deserialize_u32: visit_u32(it) = it.number(32)? as u32;
        deserialize_u64: visit_u64(it) = it.number(64)?;
        deserialize_u128: visit_u128(it) = it.wide_number()?;
        deserialize_i8: visit_i8(it) = it.byte()?.cast_signed();
        deserialize_i16: visit_i16(it) = unzigzag(it.number(16)?) as i16;
        deserialize_i32: visit_i32(it) = unzigzag(it.number(32)?) as i32;
        deserialize_i64: visit_i64(it) = unzigzag(it.number(64)?);
        deserialize_str: visit_borrowed_str(it) = it.text()?;
        deserialize_string: visit_borrowed_str(it) = it.text()?;
        deserialize_bytes: visit_borrowed_bytes(it) = it.bytes()?;
        deserialize_byte_buf: visit_borrowed_bytes(it) = it.bytes()?;
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Outcome<V::Value> {
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            _ => Err(Error::DeserializeBadBool),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Outcome<V::Value> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self),
            _ => Err(Error::DeserializeBadOption),
        }
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Outcome<V::Value> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Outcome<V::Value> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Outcome<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Outcome<V::Value> {
        let len = self.len()?;
        visitor.visit_seq(Parts::<Elements>::new(self, len))
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Outcome<V::Value> {
        visitor.visit_seq(Parts::<Fields>::new(self, len))
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Outcome<V::Value> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Outcome<V::Value> {
        let len = self.len()?;
        visitor.visit_map(Parts::<Elements>::new(self, len))
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Outcome<V::Value> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Outcome<V::Value> {
        visitor.visit_enum(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    // Types that do not describe themselves in bytes, and that this workspace does not use.

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Outcome<V::Value> {
        Err(Error::WontImplement)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, _: V) -> Outcome<V::Value> {
        Err(Error::WontImplement)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, _: V) -> Outcome<V::Value> {
        Err(Error::WontImplement)
    }

    fn deserialize_char<V: Visitor<'de>>(self, _: V) -> Outcome<V::Value> {
        Err(Error::WontImplement)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Outcome<V::Value> {
        Err(Error::WontImplement)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Outcome<V::Value> {
        Err(Error::WontImplement)
    }
}

impl<'de> EnumAccess<'de> for &mut Reader<'de> {
    type Error = Error;
    type Variant = Self;

    #[inline]
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Outcome<(V::Value, Self)> {
        let index = self.number(32)? as u32;
        Ok((seed.deserialize(index.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = Error;

    #[inline]
    fn unit_variant(self) -> Outcome<()> {
        Ok(())
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Outcome<T::Value> {
        seed.deserialize(self)
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Outcome<V::Value> {
        self.deserialize_tuple(len, visitor)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Outcome<V::Value> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::fmt::Debug;
    use serde::Serialize;

    #[derive(Serialize, serde::Deserialize, Clone, PartialEq, Debug)]
    enum Shape {
        Unit,
        New(i16),
        Pair(u8, Option<i64>),
        Fields { name: String, wide: u128, flag: bool },
        Lists(Vec<u32>, BTreeMap<u16, Vec<Shape>>, [u8; 3], (i8, i32)),
    }

    fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Option<T> {
        Reader::new(bytes, usize::MAX).value().ok()
    }

    /// Asserts that postcard reads, or refuses, these bytes alike.
    fn assert_as_postcard<'de, T: Deserialize<'de> + PartialEq + Debug>(bytes: &'de [u8]) {
        let (value, rest) = postcard::take_from_bytes::<T>(bytes)
            .map_or((None, &[][..]), |(value, rest)| (Some(value), rest));
        let expected = value.filter(|_| rest.is_empty());
        assert_eq!(read::<T>(bytes), expected, "{bytes:?}");
    }

    #[test]
    fn numbers_are_as_postcard_reads_them_and_none_is_too_long() {
        for len in 0..20 {
            for last in [0, 1, 2, 3, 4, 7, 15, 0x3f, 0x40, 0x7f, 0x80, 0xff] {
                for first in [0x80, 0xff] {
                    let mut bytes = vec![first; len];
                    bytes.push(last);
                    assert_as_postcard::<u8>(&bytes);
                    assert_as_postcard::<u16>(&bytes);
                    assert_as_postcard::<u32>(&bytes);
                    assert_as_postcard::<u64>(&bytes);
                    assert_as_postcard::<u128>(&bytes);
                    assert_as_postcard::<i8>(&bytes);
                    assert_as_postcard::<i16>(&bytes);
                    assert_as_postcard::<i32>(&bytes);
                    assert_as_postcard::<i64>(&bytes);
                    assert_as_postcard::<bool>(&bytes);
                    assert_as_postcard::<Option<u8>>(&bytes);
                }
            }
        }
    }

    #[test]
    fn shapes_are_as_postcard_reads_them_whatever_byte_is_another() {
        let map = BTreeMap::from([(3, vec![Shape::Unit, Shape::New(-5)]), (700, Vec::new())]);
        let shapes = vec![
            Shape::Unit,
            Shape::New(-300),
            Shape::Pair(7, None),
            Shape::Pair(8, Some(i64::MIN)),
            Shape::Fields { name: String::from("näme"), wide: u128::MAX / 3, flag: true },
            Shape::Lists(vec![1, 1 << 20, u32::MAX], map, [1, 2, 3], (-1, i32::MIN)),
        ];
        let good = postcard::to_allocvec(&shapes).unwrap();
        assert_eq!(read::<Vec<Shape>>(&good), Some(shapes));
        for at in 0..good.len() {
            assert_as_postcard::<Vec<Shape>>(&good[..at]);
            let mut bad = good.clone();
            for byte in 0..=255 {
                bad[at] = byte;
                assert_as_postcard::<Vec<Shape>>(&bad);
            }
        }
    }

    #[test]
    fn elements_count_and_too_many_are_refused() {
        let bytes = postcard::to_allocvec(&vec![1_u64; 100]).unwrap();
        for (most, is_read) in [(800, true), (799, false), (0, false)] {
            let mut reader = Reader::new(&bytes, most);
            let read = reader.value::<Vec<u64>>();
            assert_eq!((read.is_ok(), reader.is_too_much()), (is_read, !is_read), "{most}");
        }
        let nested = postcard::to_allocvec(&vec![vec![(1_u8, 2_u8); 3]; 5]).unwrap();
        let mut reader = Reader::new(&nested, usize::MAX);
        reader.value::<Vec<Vec<(u8, u8)>>>().unwrap();
        assert_eq!(reader.taken, 5 * (size_of::<Vec<u8>>() + 3 * 2));
        let text = postcard::to_allocvec(&("a long text", [7_u64; 9], Some(1_u128))).unwrap();
        assert!(Reader::new(&text, 0).value::<(String, [u64; 9], Option<u128>)>().is_ok());
    }
}
