use super::*;
use crate::disk::memdisk::MemDisk;
use crate::index::format::header::{index_name, seal};
use crate::index::writer::IndexWriter;
use crate::types::options::IndexSizes;

const SIZES: IndexSizes =
    IndexSizes { block_bytes: 100, file_bytes: 1 << 20, filter_prefix_bytes: 4 };

/// The bytes and facts of a file with values, tombstones and ranges.
fn sample() -> (Vec<u8>, FileFacts) {
    let disk = MemDisk::new();
    let mut writer = IndexWriter::create(&disk, 1, 7, SIZES, false).unwrap();
    for number in 0..40u8 {
        let value = [number; 9];
        let value = (number % 5 != 0).then_some(&value[..]);
        writer.push(&[b'k', number, 0, 0, number], value).unwrap();
    }
    let mut ranges = RangeSet::default();
    ranges.insert(b"a", b"b");
    ranges.insert(b"x", b"z");
    let facts = writer.finish(&ranges).unwrap().facts;
    (disk.files()[&index_name(7)].clone(), facts)
}

fn open(bytes: &[u8], facts: &FileFacts) -> Result<IndexFile, ReadError> {
    let disk = MemDisk::with_files([(&index_name(7)[..], bytes)]);
    IndexFile::open(&disk, 1, FileFacts { len: bytes.len() as u64, ..facts.clone() })
}

fn damage(file: &IndexFile) -> Vec<ReadError> {
    let mut found = Vec::new();
    file.verify(|_| {}, |error| found.push(error));
    found
}

#[test]
fn a_file_tells_what_it_holds_and_hides() {
    let (bytes, facts) = sample();
    let file = Arc::new(open(&bytes, &facts).unwrap());
    assert!(damage(&file).is_empty());
    assert_eq!((&*facts.from, &*facts.to), (&b"a"[..], &b"z"[..]));
    assert_eq!((facts.entries, facts.tombstones), (40, 8));
    let pool = Arc::new(Pool::new(1 << 20));
    let get = |key: &[u8]| match file.get(key, file.hash(key), &pool, Access::Cached).unwrap() {
        Some(DiskFound::Value(value)) => format!("value {}", value[0]),
        Some(DiskFound::Deleted) => "deleted".to_owned(),
        None => "unknown".to_owned(),
    };
    for (key, expected) in [
        (&[b'k', 7, 0, 0, 7][..], "value 7"),
        (&[b'k', 5, 0, 0, 5], "deleted"),
        (&[b'k', 7, 0, 0, 8], "unknown"),
        (b"aa", "deleted"),
        (b"b", "unknown"),
        (b"yz", "deleted"),
    ] {
        assert_eq!(get(key), expected, "{key:?}");
    }
}

#[test]
fn no_flipped_bit_passes_unnoticed() {
    let (bytes, facts) = sample();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let is_noticed = open(&flipped, &facts).map_or(true, |file| !damage(&file).is_empty());
        assert!(is_noticed, "bit {bit}");
    }
}

#[test]
fn a_tail_that_makes_no_sense_is_refused_even_with_a_right_checksum() {
    let (bytes, facts) = sample();
    let seal = seal(1, 7);
    let footer_at = bytes.len() - FOOTER_BYTES;
    let footer = Footer::parse(&bytes[footer_at..], seal, footer_at as u64).unwrap();
    let blocks_end = footer.blocks_end as usize;
    let (mut accepted, mut refused) = (0, 0);
    crate::fuzz::mutations(&bytes[blocks_end..footer_at + 56], |changed| {
        // `changed` is the tail, then all of the footer that is not a checksum.
        let Some(tail_bytes) = changed.len().checked_sub(56) else { return };
        let (tail, fields) = changed.split_at(tail_bytes);
        let mut file = bytes[..blocks_end].to_vec();
        file.extend_from_slice(tail);
        let footer_at = file.len() as u64;
        let tail_seal = Fields(fields).u64().map_or(0, |at| seal.at(at).over(tail).value());
        let mut footer = fields.to_vec();
        footer.extend_from_slice(&bytes[bytes.len() - FOOTER_BYTES + 56..][..4]);
        footer.extend_from_slice(&tail_seal.to_le_bytes());
        footer.resize(88, 0);
        footer.extend_from_slice(&FOOTER_MAGIC);
        let checksum = seal.at(footer_at).over(&footer).value();
        footer.extend_from_slice(&checksum.to_le_bytes());
        file.extend_from_slice(&footer);
        match open(&file, &facts) {
            Err(_) => refused += 1,
            Ok(file) => {
                accepted += 1;
                let file = Arc::new(file);
                let pool = Arc::new(Pool::new(1 << 20));
                for number in 0..40 {
                    let key = [b'k', number, 0, 0, number];
                    let _ = file.get(&key, file.hash(&key), &pool, Access::Cached);
                }
                drop(damage(&file));
            }
        }
    });
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

#[test]
fn a_file_header_that_makes_no_sense_is_refused_even_with_a_right_checksum() {
    let (bytes, facts) = sample();
    let (mut accepted, mut refused) = (0, 0);
    crate::fuzz::mutations(&bytes[..28], |changed| {
        let checksum = seal(1, 7).at(0).over(changed).value().to_le_bytes();
        let header = [changed, &checksum].concat();
        let known = header.get(..10) == bytes.get(..10);
        match open(&[&header, &bytes[INDEX_HEADER_BYTES..]].concat(), &facts) {
            Err(_) => refused += 1,
            Ok(_) => {
                accepted += 1;
                assert!(known, "magic and version are as they must be");
            }
        }
    });
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}
