//! The pinned file formats: every later version must read what a released version wrote.

use std::sync::Arc;

use babu::{Batch, Db, MemDisk, Options};

use crate::common::small_options;

/// CRC-32C, computed bit by bit.
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
fn the_same_operations_give_the_pinned_bytes() {
    let disk = MemDisk::new();
    let options = Options { file_bytes: 1 << 20, ..small_options() };
    let (mut db, _) = Db::open(Arc::new(disk.clone()), options).unwrap();
    let mut batch = Batch::new();
    let mut state = 1u64;
    for number in 0..40u8 {
        // Noise is stored raw. The bytes of a compressed block depend on the compressor.
        let value: Vec<u8> = (0..60)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        batch.put(&[number; 25], &value);
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

    // The fields also stand where `crates/babu/src/lib.rs` says.
    let log = &files["log-0000000000000002"];
    assert_eq!(&log[..8], b"babuLOG\n");
    assert_eq!(log[24], 2, "log number");
    assert_eq!(log[32], 1, "epoch");
    assert_eq!(log[40], 1, "base LSN");
    assert_eq!(log[8], 2, "format version");
    assert_eq!(log[4096..4098], [0xBA, 0xB2]);
    assert_eq!((log[4096 + 9], log[4096 + 10]), (0x80, 2), "there is a claim; LSN");
    assert_eq!(log[4096 + 14], 1, "durable LSN");
    assert_eq!((log[4096 + 22], log[4096 + 23]), (9, 3), "meta length, changes");
    assert_eq!(&log[4096 + 24..4096 + 33], b"more meta");
    let index = &files["idx-0000000000000001"];
    assert_eq!(&index[..8], b"babuIDX\n");
    assert_eq!(&index[index.len() - 8..index.len() - 4], b"bFTR");
    let manifest = &files["MANIFEST"];
    assert_eq!(&manifest[..8], b"babuMAN\n");
    assert_eq!((manifest[16], manifest[24], manifest[32]), (77, 1, 1), "id, epoch, checkpoint");
    assert_eq!((manifest[40], manifest[48]), (2, 2), "log, index");
    assert_eq!(manifest[56..59], [1, 0, 1], "one index, without a name, of one level");
}

const PINNED: [&str; 3] = [
    "MANIFEST 120 66e15a6a",
    "idx-0000000000000001 3415 e318c43d",
    "log-0000000000000002 8192 6689bebd",
];
