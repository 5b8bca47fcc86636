//! Flipped, cut and missing bytes. They are reported, or harmless. They never cause a panic or a
//! wrong answer.

use babu::{Batch, Db, Lsn, MemDisk, OpenError, ReadError};

use crate::common;
use crate::common::damages::{
    Files, Outcome, assert_found_or_harmless, database, disk_of, read_all,
};
use crate::common::open;

/// Decodes a key as reports show it, with escapes for bytes that are not text.
fn unescaped(shown: &str) -> Vec<u8> {
    let mut key = Vec::new();
    let mut rest = shown.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = (*first == b'\\').then(|| tail[0]);
        let (byte, len) = match escape {
            None => (*first, 0),
            Some(b'x') => {
                (u8::from_str_radix(&shown[shown.len() - tail.len() + 1..][..2], 16).unwrap(), 3)
            }
            Some(b't') => (b'\t', 1),
            Some(b'n') => (b'\n', 1),
            Some(b'r') => (b'\r', 1),
            Some(other) => (other, 1),
        };
        key.push(byte);
        rest = &tail[len..];
    }
    key
}

#[test]
fn the_report_of_a_damaged_block_names_the_keys_that_cannot_be_read() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    for number in 0..200u8 {
        batch.put(&[b'k', number], &[number; 20]);
    }
    db.apply(&batch, b"");
    db.checkpoint().unwrap();
    let files = disk.files();
    let mut blocks = 0;
    for name in files.keys().filter(|name| name.starts_with("idx-")) {
        let mut before = 0;
        for at in (32..files[name].len()).step_by(40) {
            let mut damaged = files.clone();
            damaged.get_mut(name).unwrap()[at] ^= 1;
            let disk = disk_of(&damaged);
            let report = babu::check(&disk).unwrap();
            let [damage] = &report.damage[..] else { panic!("{name} at {at}: {report:?}") };
            assert_eq!(&damage.file, name);
            let (_, span) = damage.what.split_once("affected are the keys from ").unwrap();
            assert!(damage.offset <= at as u64 && damage.offset >= before, "{damage}");
            before = damage.offset;
            let (from, to) = span.split_once(" up to ").unwrap();
            let (from, to) = (unescaped(from), unescaped(to));
            assert!(from < to && from.starts_with(b"k"), "{damage}");
            // Damage to header, filter, block list or footer affects all keys of the file.
            let (db, _) = open(&disk).unwrap();
            let lost: Vec<u8> = (0..200).filter(|&n| db.get(&[b'k', n]).is_err()).collect();
            assert!(!lost.is_empty(), "{damage}");
            let is_named = |n: u8| from[..] <= [b'k', n][..] && [b'k', n][..] < to[..];
            let named: Vec<u8> = (0..200).filter(|&n| is_named(n)).collect();
            assert_eq!(lost, named, "{damage}");
            blocks += 1;
        }
    }
    assert!(blocks > 20, "{blocks}");
}

#[test]
fn every_flipped_byte_of_a_durable_database_is_found_or_harmless() {
    let (files, model) = database();
    let disk = disk_of(&files);
    assert!(babu::check(&disk).unwrap().is_clean());
    assert!(matches!(read_all(&disk), Outcome::Read(found) if found == model));
    for name in files.keys() {
        let used = files[name].iter().rposition(|&byte| byte != 0).unwrap() + 20;
        let mut refused = 0;
        for at in (0..used.min(files[name].len())).step_by(if name == "MANIFEST" { 3 } else { 11 })
        {
            for mask in [1, 0xff] {
                let mut damaged = files.clone();
                damaged.get_mut(name).unwrap()[at] ^= mask;
                let context = format!("{name} at {at} ^ {mask}");
                assert_found_or_harmless(&damaged, &model, name, &context);
                refused += usize::from(!babu::check(&disk_of(&damaged)).unwrap().is_clean());
            }
        }
        assert!(refused > 8, "{name}: {refused}");
    }
}

#[test]
fn every_cut_of_a_durable_database_is_found_or_harmless() {
    let (files, model) = database();
    for name in files.keys() {
        for len in (0..files[name].len()).step_by(37) {
            let mut damaged = files.clone();
            damaged.get_mut(name).unwrap().truncate(len);
            let context = format!("{name} cut at {len}");
            assert_found_or_harmless(&damaged, &model, name, &context);
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let (files, _) = database();
    for name in files.keys() {
        let mut damaged = files.clone();
        damaged.remove(name);
        let disk = disk_of(&damaged);
        let report = babu::check(&disk).unwrap();
        assert_eq!(report.damage.len(), 1, "{name}: {report:?}");
        match read_all(&disk) {
            Outcome::Refused(ReadError::Damaged(damage)) => {
                assert!(damage.file == *name || damage.what.contains("missing"), "{name}: {damage}")
            }
            _ => panic!("{name} is not missed"),
        }
    }
}

#[test]
fn a_file_of_another_database_is_not_taken_for_ours() {
    let (files, _) = database();
    let other = MemDisk::new();
    let options = babu::Options { database_id: 78, ..common::small_options() };
    let (mut db, _) = Db::open(std::sync::Arc::new(other.clone()), options).unwrap();
    let mut batch = Batch::new();
    batch.put(b"key", b"value");
    for _ in 0..3 {
        db.apply(&batch, b"");
        db.freeze().unwrap();
    }
    for (name, bytes) in other.files() {
        if name != "MANIFEST" && files.contains_key(&name) {
            let mut mixed = files.clone();
            mixed.insert(name.clone(), bytes);
            assert!(matches!(read_all(&disk_of(&mixed)), Outcome::Refused(_)), "{name}");
        }
    }
}

#[test]
fn random_bytes_in_any_file_never_panic() {
    let (files, model) = database();
    common::fuzz::rounds(1500, |round, random| {
        for name in files.keys() {
            let mut damaged = files.clone();
            let bytes = damaged.get_mut(name).unwrap();
            match round % 3 {
                0 => {
                    let len = random.usize(..bytes.len() + 100);
                    *bytes = (0..len).map(|_| random.u8(..)).collect();
                }
                1 => common::fuzz::mutate(bytes, random),
                _ => {
                    for _ in 0..=random.u8(..8) {
                        let at = random.usize(..bytes.len().min(6000));
                        bytes[at] = random.u8(..);
                    }
                }
            }
            let disk = disk_of(&damaged);
            let _ = babu::check(&disk);
            if let Outcome::Read(found) = read_all(&disk) {
                assert!(found == model, "round {round}, {name}: a wrong answer");
            }
        }
    });
}

/// The files and group ranges of a log with three groups, each written on its own. Each of the
/// first `synced` groups was synced before the next was made.
fn three_groups(synced: usize) -> (Files, Vec<std::ops::Range<usize>>) {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    let mut ranges = Vec::new();
    let mut start = 4096;
    for number in 1..=3u8 {
        batch.clear();
        batch.put(&[number], &[number; 50]);
        db.apply(&batch, b"");
        let end = 4096 + db.log_bytes() as usize;
        ranges.push(start..end);
        start = end;
        db.write().unwrap();
        if usize::from(number) <= synced {
            db.syncer().sync().unwrap();
        }
    }
    (disk.files(), ranges)
}

const LOG: &str = "log-0000000000000001";

fn erase_marks(files: &mut Files) {
    files.get_mut(LOG).unwrap()[64..4096].fill(0);
}

#[test]
fn a_whole_group_behind_a_hole_that_was_never_durable_is_cut() {
    for synced in 0..2 {
        let (mut files, groups) = three_groups(synced);
        files.get_mut(LOG).unwrap()[groups[1].clone()].fill(0);
        let disk = disk_of(&files);
        let report = babu::check(&disk).unwrap();
        assert!(report.is_clean() && report.torn.is_some());
        let (db, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.last_lsn, Lsn(1));
        let torn = recovered.torn.unwrap();
        assert_eq!((&torn.file[..], torn.offset), (LOG, groups[1].start as u64));
        assert_eq!(torn.whole_groups, 1);
        assert!(torn.bytes > groups[1].len() as u64);
        assert_eq!(db.get(&[3]).unwrap().as_deref(), None);
        // The group stays cut, and the next group takes its number.
        let (mut db, recovered) = open(&disk.crash_process()).unwrap();
        assert_eq!((recovered.last_lsn, recovered.torn), (Lsn(1), None));
        assert_eq!(db.apply(&Batch::new(), b""), Lsn(2));
    }
}

#[test]
fn a_damaged_group_that_a_later_group_knew_durable_is_an_error_with_file_and_offset() {
    let (mut files, groups) = three_groups(2);
    erase_marks(&mut files);
    for group in &groups[..2] {
        for at in group.clone() {
            let mut damaged = files.clone();
            damaged.get_mut(LOG).unwrap()[at] ^= 0x10;
            let disk = disk_of(&damaged);
            let Err(OpenError::Read(ReadError::Damaged(damage))) = open(&disk).map(|_| ()) else {
                panic!("byte {at} is not missed");
            };
            assert_eq!((&damage.file[..], damage.offset), (LOG, group.start as u64));
            assert!(damage.what.contains("had been durable"), "{damage}");
            // Only the group after it has a claim, and that claim covers one group.
            let first = 1 + groups.iter().position(|known| known == group).unwrap();
            let affected = match first {
                1 => "affected are the groups from 1 to 2, and all later ones",
                _ => "affected is group 2, and all later ones",
            };
            assert!(damage.what.ends_with(affected), "{damage}");
        }
    }
}

#[test]
fn the_last_group_is_protected_by_the_mark_of_its_sync() {
    let (files, groups) = three_groups(3);
    let mut damaged = files.clone();
    damaged.get_mut(LOG).unwrap()[groups[2].start + 60] ^= 1;
    assert!(open(&disk_of(&damaged)).is_err());
    // Either mark place may be lost: the other one still claims group 2.
    for mark_place in [512, 1024] {
        let mut damaged = files.clone();
        let log = damaged.get_mut(LOG).unwrap();
        log[mark_place] ^= 1;
        log[groups[1].start + 60] ^= 1;
        assert!(open(&disk_of(&damaged)).is_err());
    }
    // Without a sync it is a torn tail.
    let (mut files, groups) = three_groups(0);
    files.get_mut(LOG).unwrap()[groups[2].start + 60] ^= 1;
    let (_, recovered) = open(&disk_of(&files)).unwrap();
    assert_eq!(recovered.last_lsn, Lsn(2));
    assert_eq!(
        recovered.torn.map_or(0, |torn| torn.bytes),
        groups[2].len() as u64 - recovered_zeros(&files, &groups[2])
    );
}

/// A caller that syncs each group leaves no mark: the next group carries the claim. The last sync
/// of all leaves a mark.
#[test]
fn the_last_of_groups_that_are_synced_one_by_one_is_protected_once_a_sync_has_nothing_else_to_do() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let syncer = db.syncer();
    let mut ends = Vec::new();
    for number in 0..3_u8 {
        let mut batch = Batch::new();
        batch.put(&[number], &[number; 40]);
        let lsn = db.apply(&batch, b"");
        db.write().unwrap();
        assert_eq!(syncer.sync_to(lsn).unwrap(), lsn);
        ends.push(disk.files()[LOG].iter().rposition(|byte| *byte != 0).unwrap());
    }
    let flipped = |disk: &MemDisk, group: usize| {
        let mut files = disk.files();
        files.get_mut(LOG).unwrap()[ends[group] - 8] ^= 1;
        open(&disk_of(&files)).map(|(_, recovered)| recovered.last_lsn)
    };
    assert!(flipped(&disk, 1).is_err(), "the third group knows of it");
    assert_eq!(flipped(&disk, 2).unwrap(), Lsn(2), "nobody knows of the third");
    let before = disk.files();
    assert_eq!(syncer.sync().unwrap(), Lsn(3));
    assert!(flipped(&disk, 2).is_err());
    // The sync leaves one mark. A repeated sync leaves no more.
    let changed = |a: &Files, b: &Files| (0..4096).filter(|&at| a[LOG][at] != b[LOG][at]).count();
    let marked = disk.files();
    assert!((1..=64).contains(&changed(&before, &marked)));
    assert_eq!(syncer.sync().unwrap(), Lsn(3));
    assert_eq!(changed(&marked, &disk.files()), 0);
}

/// Number of trailing zeros of a group. They do not count as torn bytes.
fn recovered_zeros(files: &Files, group: &std::ops::Range<usize>) -> u64 {
    let bytes = &files[LOG][group.clone()];
    bytes.iter().rev().take_while(|&&byte| byte == 0).count() as u64
}

#[test]
fn a_group_stored_in_a_value_is_never_taken_for_a_group_of_the_log() {
    // A value holds the bytes of log groups that claim to be durable, at each alignment. Then the
    // value is torn.
    let (files, groups) = three_groups(3);
    let stolen = &files[LOG][groups[1].start..groups[2].end];
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    for shift in 0..8 {
        let value = [&vec![0; shift], stolen].concat();
        let mut batch = Batch::new();
        batch.put(b"key", &value);
        db.apply(&batch, b"");
    }
    db.write().unwrap();
    let mut files = disk.files();
    files.get_mut(LOG).unwrap()[4096 + 20] ^= 1;
    let (_, recovered) = open(&disk_of(&files)).unwrap();
    assert_eq!(recovered.last_lsn, Lsn(0));
    assert_eq!(recovered.torn.unwrap().whole_groups, 7);
}

#[test]
fn another_format_version_is_named_not_called_damage() {
    for version in [1, 4] {
        let (mut files, _) = database();
        let manifest = files.get_mut("MANIFEST").unwrap();
        manifest[8] = version;
        // The checksum is right for that version. It covers seed, head and body, in this order.
        let crc = |bytes: &[u8], seed| crc32c_append(seed, bytes);
        let seed = crc(&[0; 16], crc(b"babuMAN\n", 0));
        let checksum = crc(&manifest[16..], crc(&manifest[..12], seed));
        manifest[12..16].copy_from_slice(&checksum.to_le_bytes());
        let before = files.clone();
        let disk = disk_of(&files);
        let error = open(&disk).map(|_| ()).unwrap_err();
        let expected = format!(
            "MANIFEST has format version {version}; this program reads version 3: use the program that wrote it"
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(disk.files(), before, "nothing was changed");
    }
}

/// CRC-32C, computed bit by bit, to check the implementation in use.
fn crc32c_append(seed: u32, bytes: &[u8]) -> u32 {
    let mut crc = !seed;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
