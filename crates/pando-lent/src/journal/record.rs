//! Heads of halves, and records.

use pando_types::codec;
use pando_types::lend::{Element, RULES};
use pando_types::{ShardIndex, TxnId};
use serde::{Deserialize, Serialize};

/// Bytes of a half.
pub const HALF: usize = 1 << 20;
/// Version of the encoding.
const VERSION: u8 = 1;
const MAGIC: [u8; 8] = *b"pandoJ01";
/// Bytes of a head: magic, number, rules, shard, checksum.
pub(super) const HEAD: usize = 8 + 8 + 4 + 2 + 4;
/// Bytes before a record: its length, and a checksum.
const BEFORE: usize = 8;

/// What is noted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Noted {
    /// The part of this grant is here.
    Part(TxnId),
    /// The holder has answered this.
    Element(Element),
    /// The grant is over, and the holder knows what became of its elements. The shard may have
    /// forgotten it.
    Over(TxnId),
}

/// [`Noted`], to be written.
#[derive(Serialize)]
pub(super) enum ToNote<'a> {
    Part(TxnId),
    Element(&'a Element),
    Over(TxnId),
}

fn checksum(number: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), bytes)
}

/// The head of a half.
pub(super) fn head(number: u64, shard: ShardIndex) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..20].copy_from_slice(&RULES.to_le_bytes());
    bytes[20..22].copy_from_slice(&shard.0.to_le_bytes());
    let sum = checksum(number, &bytes[..22]);
    bytes[22..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Adds a record to `bytes`.
pub(super) fn write(bytes: &mut Vec<u8>, number: u64, noted: &ToNote<'_>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; BEFORE]);
    bytes.push(VERSION);
    codec::encode_body(bytes, noted);
    let len = u32::try_from(bytes.len() - start - BEFORE).unwrap_or(u32::MAX);
    let sum = checksum(number, &bytes[start + BEFORE..]);
    bytes[start..start + 4].copy_from_slice(&len.to_le_bytes());
    bytes[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Number, rules and shard of a half; `None`: it was never written.
fn read_head(bytes: &[u8]) -> Option<(u64, u32, ShardIndex)> {
    let bytes = bytes.get(..HEAD).filter(|bytes| bytes[..8] == MAGIC)?;
    let number = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    let shard = u16::from_le_bytes(bytes[20..22].try_into().ok()?);
    let is_whole = u32_at(bytes, 22)? == checksum(number, &bytes[..22]);
    is_whole.then_some((number, u32_at(bytes, 16)?, ShardIndex(shard)))
}

/// The records of a half, up to the first that was not written whole: it was not answered.
fn records(bytes: &[u8], number: u64) -> Vec<Noted> {
    let (mut at, mut all) = (HEAD, Vec::new());
    loop {
        let next = || {
            let len = u32_at(bytes, at)? as usize;
            let body = bytes.get(at + BEFORE..at.checked_add(BEFORE + len)?)?;
            let is_whole = len > 0 && u32_at(bytes, at + 4)? == checksum(number, body);
            let noted = is_whole.then(|| codec::decode(VERSION, body))?.ok()?;
            Some((noted, BEFORE + len))
        };
        let Some((noted, len)) = next() else { return all };
        all.push(noted);
        at += len;
    }
}

/// What is noted in the bytes of a shard's notes, oldest first. `Err`: they were made by a version
/// with other rules, whose number this is.
pub fn read(bytes: &[u8]) -> Result<Option<(ShardIndex, Vec<Noted>)>, u32> {
    let halves = [&bytes[..bytes.len().min(HALF)], bytes.get(HALF..).unwrap_or_default()];
    let mut found: Vec<_> =
        halves.iter().filter_map(|half| Some((read_head(half)?, *half))).collect();
    found.sort_by_key(|((number, ..), _)| *number);
    if let Some(((_, rules, _), _)) = found.iter().find(|((_, rules, _), _)| *rules != RULES) {
        return Err(*rules);
    }
    let shard = found.first().map(|((.., shard), _)| *shard);
    let all = found.iter().flat_map(|((number, ..), half)| records(half, *number)).collect();
    Ok(shard.map(|shard| (shard, all)))
}
