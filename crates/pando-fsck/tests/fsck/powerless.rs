//! A power loss takes back what one shard had done, while others remember it. That is no damage
//! (durability mode `os`).

use pando_core::Write;
use pando_core::keys::{self, Table};
use pando_core::record::{Decided, Floor, Record};
use pando_fsck::{Mode, Page, Repairs, Rows, Unwatched, check};
use pando_types::op::Op;
use pando_types::peer::Change;
use pando_types::{HashSlot, ShardIndex, TxnId};

use crate::support;
use crate::support::Cluster;

/// All rows of a shard.
type All = Vec<(Vec<u8>, Vec<u8>)>;

fn rows_of_all(c: &Cluster) -> Vec<All> {
    Cluster::all_shards().map(|shard| c.rows(shard, b"")).collect()
}

fn put_back(c: &mut Cluster, before: &[All]) {
    for (shard, rows) in Cluster::all_shards().zip(before) {
        let there = c.rows(shard, b"").into_iter().map(|(key, _)| Write::Delete(key)).collect();
        c.stores.write(shard, there).unwrap();
        let puts = rows.iter().map(|(key, value)| Write::Put(key.clone(), value.clone())).collect();
        c.stores.write(shard, puts).unwrap();
    }
}

/// The hash slot of a linked file, its owner, and its new owner.
fn of_linked(c: &Cluster) -> (HashSlot, ShardIndex, ShardIndex) {
    let ino = c.ino("linked");
    let from = c.volume.map.link(ino);
    (ino.hash_slot(), from, ShardIndex((from.0 + 1) % support::SHARDS))
}

/// The source's record of a decided handover, if there is one now: number, key, value.
fn decided(c: &Cluster, from: ShardIndex, hash_slot: HashSlot) -> Option<(u64, Vec<u8>, Vec<u8>)> {
    let is_it = |change: &Change| matches!(change, Change::OwnHashSlot(news) if news.hash_slot == hash_slot);
    c.rows(from, &keys::table(Table::Txn)).into_iter().find_map(|(key, value)| {
        let number = u64::from_be_bytes(key[2..].try_into().unwrap());
        let steps = Decided::decode(&value).unwrap().steps;
        let is_found = steps.iter().any(|(_, _, changes)| changes.iter().any(is_it));
        is_found.then_some((number, key, value))
    })
}

/// The source forgot its decision, and told the target so. A power loss took back the forgetting.
/// The hash slot has arrived all the same.
#[test]
fn a_decision_that_is_back_is_not_taken_for_one_that_is_unheard() {
    let mut c = Cluster::busy();
    let (hash_slot, from, to) = of_linked(&c);
    c.send(from, Op::HandOver(from, hash_slot, to));
    let mut seen = None;
    while c.deliver() {
        seen = decided(&c, from, hash_slot).or(seen);
    }
    c.settle();
    let (number, key, value) = seen.expect("it was decided");
    assert_eq!(decided(&c, from, hash_slot), None, "it is forgotten");
    c.end_session(c.session);
    c.settle();
    c.stop();
    let (first, last) = (TxnId { shard: from, number: 0 }, TxnId { shard: from, number });
    let over = keys::finished(first, 0)..=keys::finished(last, u16::MAX);
    for (key, _) in c.rows(to, &keys::table(Table::Finished)) {
        if over.contains(&key) {
            c.delete(to, &key);
        }
    }
    c.put(to, &keys::floor(from), &Floor::below(number + 1).encode());
    c.put(from, &key, &value);
    let report = c.check();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// A volume that loses power after its tables are read, and before all other rows are.
struct Fails(Cluster, Option<Vec<All>>);

impl Rows for Fails {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        if from.is_empty()
            && let Some(before) = self.1.take()
        {
            put_back(&mut self.0, &before);
        }
        self.0.stores.page(shard, from, bytes)
    }
}

/// The check sees a handover. A power loss undoes it before the hash slot's rows are read. The rows
/// are where they belong.
#[test]
fn a_handover_that_was_undone_is_no_damage() {
    let mut c = Cluster::busy();
    let (hash_slot, from, to) = of_linked(&c);
    let before = rows_of_all(&c);
    c.send(from, Op::HandOver(from, hash_slot, to));
    c.settle();
    c.stop();
    let volume = c.volume.clone();
    let mut rows = Fails(c, Some(before));
    let report = check(&mut rows, None, &volume, Mode::Running, &mut Unwatched).unwrap();
    assert!(rows.1.is_none(), "the power went");
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert!(report.unjudged > 0, "nothing was suspected");
}
