//! Encoder of the postcard format, faster than postcard's own. Most of a record is numbers of a few
//! bytes. The writer gathers them in a small array without a call for each, and appends the array
//! to the vector. (Encoding was a fifteenth of all instructions of a create.)
//!
//! The format is postcard's, byte by byte; a test compares them. Integers above a byte are LEB128,
//! signed ones zigzag first. Lengths and variants are integers. Structs and tuples are their
//! fields.

use alloc::vec::Vec;

use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Fails only for values without a length that is known in advance. No record or message is one.
type Outcome = Result<(), postcard::Error>;

const GATHERED: usize = 256;
/// Most bytes of an encoded 64-bit number.
const LONGEST: usize = 10;

/// Encoder that appends to a vector.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    gathered: [u8; GATHERED],
    len: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, gathered: [0; GATHERED], len: 0 }
    }

    /// Flushes. Only after this is everything in the vector.
    pub(super) fn finish(mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        self.out.extend_from_slice(&self.gathered[..self.len]);
        self.len = 0;
    }

    /// Space for `N` bytes. The caller adds those that it used to `len`.
    #[inline]
    fn room<const N: usize>(&mut self) -> &mut [u8; N] {
        if self.len > GATHERED - N {
            self.flush();
        }
        self.gathered[self.len..].first_chunk_mut().expect("there is as much after a flush")
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        *self.room() = [byte];
        self.len += 1;
    }

    #[inline]
    fn number(&mut self, number: u64) {
        let mut left = number;
        let mut used = 0;
        for byte in self.room::<LONGEST>() {
            used += 1;
            *byte = left as u8 | 0x80;
            left >>= 7;
            if left == 0 {
                *byte &= 0x7f;
                break;
            }
        }
        self.len += used;
    }

    fn wide_number(&mut self, mut left: u128) {
        while left > 0x7f {
            self.byte(left as u8 | 0x80);
            left >>= 7;
        }
        self.byte(left as u8);
    }

    /// Copies `bytes`, which has at least N and at most 2 N bytes, as its first N and its last N.
    #[inline]
    fn put<const N: usize>(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
            self.gathered[self.len..self.len + N].copy_from_slice(first);
            self.gathered[end - N..end].copy_from_slice(last);
            self.len = end;
        }
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        if self.len + bytes.len() > GATHERED {
            self.flush();
        }
        match bytes.len() {
            0 => {}
            1 => self.put::<1>(bytes),
            2..4 => self.put::<2>(bytes),
            4..8 => self.put::<4>(bytes),
            8..16 => self.put::<8>(bytes),
            16..=32 => self.put::<16>(bytes),
            _ => {
                self.flush();
                self.out.extend_from_slice(bytes);
            }
        }
    }

    #[inline]
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
        value.serialize(self)
    }
}

#[inline]
const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

macro_rules! numbers {
    ($($method:ident: $number:ty => $as:ident;)*) => {
        $(
            #[inline]
            fn $method(self, number: $number) -> Outcome {
                self.$as(number.into());
                Ok(())
            }
        )*
    };
}

impl Serializer for &mut Writer<'_> {
    type Ok = ();
    type Error = postcard::Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    numbers! {
        serialize_bool: bool => byte;
        serialize_u8: u8 => byte;
        serialize_u16: u16 => number;
        serialize_u32: u32 => number;
        serialize_u64: u64 => number;
        serialize_u128: u128 => wide_number;
    }

    #[inline]
    fn serialize_i8(self, number: i8) -> Outcome {
        self.byte(number.cast_unsigned());
        Ok(())
    }

    #[inline]
    fn serialize_i16(self, number: i16) -> Outcome {
        self.serialize_i64(number.into())
    }

    #[inline]
    fn serialize_i32(self, number: i32) -> Outcome {
        self.serialize_i64(number.into())
    }

    #[inline]
    fn serialize_i64(self, number: i64) -> Outcome {
        self.number(zigzag(number));
        Ok(())
    }

    fn serialize_i128(self, number: i128) -> Outcome {
        self.wide_number(((number << 1) ^ (number >> 127)).cast_unsigned());
        Ok(())
    }

    fn serialize_f32(self, number: f32) -> Outcome {
        *self.room() = number.to_le_bytes();
        self.len += size_of_val(&number);
        Ok(())
    }

    fn serialize_f64(self, number: f64) -> Outcome {
        *self.room() = number.to_le_bytes();
        self.len += size_of_val(&number);
        Ok(())
    }

    fn serialize_char(self, char: char) -> Outcome {
        self.serialize_str(char.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, text: &str) -> Outcome {
        self.bytes(text.as_bytes());
        Ok(())
    }

    #[inline]
    fn serialize_bytes(self, bytes: &[u8]) -> Outcome {
        self.bytes(bytes);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Outcome {
        self.byte(0);
        Ok(())
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Outcome {
        self.byte(1);
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Outcome {
        Ok(())
    }

    #[inline]
    fn serialize_unit_struct(self, _: &'static str) -> Outcome {
        Ok(())
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Outcome {
        self.number(index.into());
        Ok(())
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Outcome {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Outcome {
        self.number(index.into());
        value.serialize(self)
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Self, postcard::Error> {
        self.number(len.ok_or(postcard::Error::SerializeSeqLengthUnknown)? as u64);
        Ok(self)
    }

    #[inline]
    fn serialize_tuple(self, _: usize) -> Result<Self, postcard::Error> {
        Ok(self)
    }

    #[inline]
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, postcard::Error> {
        Ok(self)
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, postcard::Error> {
        self.number(index.into());
        Ok(self)
    }

    #[inline]
    fn serialize_map(self, len: Option<usize>) -> Result<Self, postcard::Error> {
        self.serialize_seq(len)
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, postcard::Error> {
        Ok(self)
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, postcard::Error> {
        self.number(index.into());
        Ok(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! parts {
    ($($part:ident: $method:ident($($name:ty)?);)*) => {
        $(
            impl $part for &mut Writer<'_> {
                type Ok = ();
                type Error = postcard::Error;

                #[inline]
                fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Outcome {
                    self.element(value)
                }

                #[inline]
                fn end(self) -> Outcome {
                    Ok(())
                }
            }
        )*
    };
}

parts! {
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
}

impl SerializeMap for &mut Writer<'_> {
    type Ok = ();
    type Error = postcard::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Outcome {
        self.element(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
        self.element(value)
    }

    fn end(self) -> Outcome {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::string::String;
    use serde::Deserialize;

    fn written<T: Serialize>(value: &T) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        value.serialize(&mut writer).unwrap();
        writer.finish();
        bytes
    }

    #[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
    enum Shape {
        Unit,
        New(i16),
        Pair(u8, Option<i64>),
        Fields { name: String, wide: u128, deep: i128 },
    }

    #[derive(Serialize)]
    struct Nothing;

    /// Numbers around every change of encoded length, from both sides.
    fn edges() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, u64::MAX - power, u64::MAX / (bit + 1)]
        })
    }

    #[test]
    fn all_numbers_are_as_postcard_writes_them() {
        for number in edges() {
            let signed = number.cast_signed();
            let value = (
                (number as u8, number as u16, number as u32, number),
                (signed as i8, signed as i16, signed as i32, signed),
                (u128::from(number) << 64 | 5, -i128::from(number) << 60, number > 9),
                (number as f32, number as f64, char::from_u32(number as u32 % 0xd800)),
            );
            assert_eq!(written(&value), postcard::to_allocvec(&value).unwrap(), "{number}");
        }
    }

    #[test]
    fn all_shapes_are_as_postcard_writes_them() {
        let map: BTreeMap<String, Option<u16>> = (0..40)
            .map(|n| (String::from("k").repeat(n), (n % 3 > 0).then_some(n as u16)))
            .collect();
        let wide = u128::MAX / 3;
        let value = (
            [Shape::Unit, Shape::New(-300), Shape::Pair(7, None), Shape::Pair(8, Some(i64::MIN))],
            Shape::Fields { name: String::from("a name"), wide, deep: i128::MIN },
            (map, Nothing, (), Some(Nothing), "text", [1_u32; 3], alloc::vec![Shape::Unit; 200]),
        );
        assert_eq!(written(&value), postcard::to_allocvec(&value).unwrap());
    }

    #[test]
    fn what_was_there_stays_and_lengths_around_the_gathered_ones_are_whole() {
        for before in [0, 1, GATHERED - LONGEST - 1, GATHERED - LONGEST, GATHERED - 1, GATHERED] {
            for len in [0, 1, 31, 32, 33, GATHERED - 1, GATHERED, GATHERED + 1] {
                let value = (alloc::vec![1_u8; before], alloc::vec![7_u8; len], u64::MAX);
                let bytes = (serde_bytes::Bytes::new(&value.0), serde_bytes::Bytes::new(&value.1));
                assert_eq!(
                    written(&(bytes, value.2)),
                    postcard::to_allocvec(&(bytes, value.2)).unwrap()
                );
                assert_eq!(written(&value), postcard::to_allocvec(&value).unwrap());
            }
        }
    }

    #[test]
    fn a_list_of_unknown_length_is_refused() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        assert!(writer.collect_seq((0..9).filter(|n| n % 2 == 0)).is_err());
    }
}
