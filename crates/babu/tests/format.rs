//! The file formats, pinned: what a released version wrote must be read for ever.

mod common;

use babu::{Batch, MemDisk};
use common::open;

/// CRC-32C bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[test]
fn the_same_operations_give_the_bytes_of_format_version_1() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    for number in 0..40u8 {
        batch.put(&[number; 25], &[number; 10]);
    }
    db.apply(&batch, b"meta");
    db.checkpoint().unwrap();
    batch.clear();
    batch.put(b"key", b"value");
    batch.delete(&[1; 25]);
    batch.delete_range(&[3; 25], &[9; 25]);
    db.apply(&batch, b"more meta");
    db.write().unwrap();
    db.syncer().sync().unwrap();

    let files = disk.files();
    let found: Vec<_> = files
        .iter()
        .map(|(name, bytes)| format!("{name} {} {:08x}", bytes.len(), crc32c(bytes)))
        .collect();
    assert_eq!(found, PINNED);

    // And by hand, where lib.rs says they are.
    let log = &files["log-0000000000000002"];
    assert_eq!(&log[..8], b"babuLOG\n");
    assert_eq!(log[24], 2, "log number");
    assert_eq!(log[32], 1, "epoch");
    assert_eq!(log[40], 1, "base LSN");
    assert_eq!(&log[4096..4100], b"bGRP");
    assert_eq!((log[4096 + 16], log[4096 + 24]), (1, 2), "epoch, LSN");
    assert_eq!((log[4096 + 40], log[4096 + 44]), (9, 3), "meta length, changes");
    assert_eq!(&log[4096 + 48..4096 + 57], b"more meta");
    let index = &files["idx-0000000000000001"];
    assert_eq!(&index[..8], b"babuIDX\n");
    assert_eq!(&index[index.len() - 8..index.len() - 4], b"bFTR");
    let manifest = &files["MANIFEST"];
    assert_eq!(&manifest[..8], b"babuMAN\n");
    assert_eq!((manifest[16], manifest[24], manifest[32]), (77, 1, 1), "id, epoch, checkpoint");
    assert_eq!((manifest[40], manifest[48], manifest[56]), (2, 2, 1), "log, index, files");
}

const PINNED: [&str; 3] = [
    "MANIFEST 80 4b3c48f0",
    "idx-0000000000000001 2281 eee8175c",
    "log-0000000000000002 8192 a701f980",
];
