//! Each row in turn is lost or garbled. The check notices it, and no repair makes things worse.

use std::collections::BTreeSet;

use pando_core::keys::{self, Kind, Table};
use pando_core::record::{Content, Entry, Record, SessionRecord};
use pando_fsck::Code;
use pando_types::op::Op;
use pando_types::peer::EntryValue;
use pando_types::{DirId, DirRef, KeyId, ShardIndex};

use crate::support;
use crate::support::{Cluster, name};

type Row = (ShardIndex, Vec<u8>, Vec<u8>);

fn all_rows(c: &Cluster) -> Vec<Row> {
    let of = |shard| c.rows(shard, b"").into_iter().map(move |(key, value)| (shard, key, value));
    Cluster::all_shards().flat_map(of).collect()
}

/// Names that lead to something. No repair may take them away.
fn names(c: &Cluster) -> BTreeSet<(DirId, String)> {
    let mut names = BTreeSet::new();
    for (_, key, value) in all_rows(c) {
        if keys::kind_of(&key) == Some(Kind::Entry as u8)
            && let Ok(Entry { is: Some((name, value)), .. }) = Entry::decode(&value)
            && let Some(dir) = keys::dir_of(&key)
        {
            let leads = match value {
                EntryValue::File(_) => true,
                EntryValue::Linked(ino, _) => {
                    let (shard, key) = c.link_row(ino, Kind::Entry);
                    c.get(shard, &key).is_some()
                }
                EntryValue::Dir(access) => {
                    let (shard, key) = c.content(access.dir);
                    c.get(shard, &key).is_some_and(|bytes| Content::decode(&bytes).is_ok())
                }
            };
            if leads {
                names.insert((dir, name.to_string()));
            }
        }
    }
    names
}

/// Whether a row can be lost without a trace. Such a row only says what is over, or it holds data
/// that may as well be a hole.
fn leaves_no_trace(key: &[u8]) -> bool {
    let of_table = |table: Table| key.starts_with(&keys::table(table));
    let is_link_inline = key[0] == b'l' && key.get(11) == Some(&(Kind::Inline as u8));
    of_table(Table::Floor)
        || of_table(Table::Finished)
        || of_table(Table::Lock)
        // No session lives. What shards have heard of sessions is sent to them again.
        || key == keys::table(Table::Session)
        || is_link_inline
        || keys::kind_of(key) == Some(Kind::Inline as u8)
}

/// Whether any bytes are a valid value of this row.
fn has_no_form(key: &[u8]) -> bool {
    key.starts_with(&keys::table(Table::Finished)) || keys::kind_of(key) == Some(Kind::Inline as u8)
}

fn mended_or_left_alone(c: &mut Cluster, what: &str) {
    let before = names(c);
    let repaired = c.repair();
    let after = names(c);
    let lost: Vec<_> = before.difference(&after).collect();
    assert!(lost.is_empty(), "{what}: {lost:?} lost by {:#?}", repaired.mended);
    for finding in &repaired.left.findings {
        assert!(!finding.is_repairable(), "{what}: {finding:#?}");
    }
    if repaired.left.is_clean() {
        c.serves();
        let left = c.check();
        assert!(left.is_clean(), "{what}: {:#?}", left.findings);
    }
}

#[test]
fn no_row_is_lost_unnoticed() {
    let rows = all_rows(&Cluster::healthy());
    assert!(rows.len() > 120, "{} rows", rows.len());
    for (shard, key, _) in rows {
        let mut c = Cluster::healthy();
        c.delete(shard, &key);
        let report = c.check();
        let what = format!("shard {shard}: {}", key.escape_ascii());
        assert!(!report.is_clean() || leaves_no_trace(&key), "{what} was not missed");
        mended_or_left_alone(&mut c, &what);
    }
}

#[test]
fn no_row_turns_to_nonsense_unnoticed() {
    for (shard, key, value) in all_rows(&Cluster::healthy()) {
        let mut c = Cluster::healthy();
        c.put(shard, &key, &value[..value.len() / 2]);
        let report = c.check();
        let what = format!("shard {shard}: {}", key.escape_ascii());
        let is_told = report.findings.iter().any(|finding| finding.code == Code::UnreadableRecord);
        assert!(is_told || has_no_form(&key), "{what}: {:#?}", report.findings);
        mended_or_left_alone(&mut c, &what);
    }
}

#[test]
fn whatever_a_row_says_what_is_called_whole_serves_and_a_repair_loses_nothing() {
    for (nth, (shard, key, value)) in all_rows(&Cluster::healthy()).into_iter().enumerate() {
        for flip in [1usize, 7, 13] {
            let mut c = Cluster::healthy();
            let mut other = value.clone();
            let Some(at) = (nth * flip + flip).checked_rem(other.len()) else { continue };
            other[at] ^= 1 << (nth % 8);
            c.put(shard, &key, &other);
            let what = format!("shard {shard}: {} at {at}", key.escape_ascii());
            mended_or_left_alone(&mut c, &what);
        }
    }
}

#[test]
fn a_row_on_another_shard_too_is_noticed() {
    for (shard, key, value) in all_rows(&Cluster::healthy()) {
        let mut c = Cluster::healthy();
        let other = ShardIndex((shard.0 + 1) % support::SHARDS);
        if c.get(other, &key).is_some() || leaves_no_trace(&key) {
            continue;
        }
        c.put(other, &key, &value);
        let what = format!("shard {shard}: {}", key.escape_ascii());
        assert!(!c.check().is_clean(), "{what} may be on shard {other} too");
        mended_or_left_alone(&mut c, &what);
    }
}

#[test]
fn what_a_session_that_is_gone_kept_alive_goes_with_its_data() {
    let mut c = Cluster::busy();
    let a = c.dir("a");
    let file = c.file(a, "big-data");
    c.done(Op::Open { file, access: 4, truncate: false, kill: None });
    c.done(Op::Unlink(a, name("big-data")));
    c.settle();
    c.stop();
    let object = c.made.object;
    let report = c.check();
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert_eq!((report.pending.nameless, report.pending.sessions), (1, 1));
    let session = c.session;
    for shard in Cluster::all_shards() {
        let key = keys::session(session);
        let record =
            SessionRecord { root: DirRef::ROOT, key: Some(KeyId::OWNER), over: None }.encode();
        assert_eq!(c.get(shard, &key), Some(record));
        c.delete(shard, &key);
    }
    let codes: BTreeSet<_> = c.check().findings.iter().map(|finding| finding.code).collect();
    let expected = [
        Code::Orphan,
        Code::OpenOfUnknownSession,
        Code::LockOfUnknownSession,
        Code::OutcomeOfUnknownSession,
    ];
    assert_eq!(codes, BTreeSet::from(expected));
    let repaired = c.repair();
    assert!(repaired.left.is_clean(), "{:#?}", repaired.left.findings);
    assert_eq!((repaired.left.pending.nameless, repaired.left.pending.garbage), (0, 1));
    assert!(c.bucket.0.contains_key(&object), "whoever collects garbage deletes it");
    c.serves();
}
