//! One damage for each invariant. It is found under its code and no other. It is mended if that
//! needs no guess.

use std::collections::BTreeSet;

use pando_core::keys::{self, Kind, Table};
use pando_core::record::{
    Arriving, Content, Decided, Entry, Floor, Header, LinkedName, Numbers, Open, OpenAt, Outcome,
    Owner, Prepared, Record, SessionRecord, SessionsHeard, Stat, Xattrs,
};
use pando_fsck::Code;
use pando_types::op::{ObjectId, Place};
use pando_types::peer::{Change, EntryValue, Inode, Prepare, SessionTable};
use pando_types::reply::{Slice, Spread};
use pando_types::{
    DirId, DirRef, FileKind, HashSlot, Ino, KeyId, LockSet, Order, PartitionIndex, Radix,
    SessionId, ShardIndex, TxnId,
};

use crate::support;
use crate::support::finds::Then::{Left, Mended};
use crate::support::finds::finds;
use crate::support::{Cluster, name};

const ROOT: DirRef = DirRef::ROOT;
const ZERO: ShardIndex = ShardIndex(0);
const ONE: ShardIndex = ShardIndex(1);
const TWO: ShardIndex = ShardIndex(2);
/// A session that no shard knows, with a number that was given.
const STRANGER: SessionId = SessionId(2);

macro_rules! fixtures {
    ($($test:ident: $code:ident, $then:ident, $inflict:expr;)*) => {
        $(#[test] fn $test() { finds(Code::$code, $then, $inflict); })*

        #[test]
        fn every_code_has_its_damage() {
            let covered = BTreeSet::from([$(Code::$code,)*]);
            let missing: Vec<_> = Code::ALL.iter().filter(|code| !covered.contains(code)).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    };
}

fixtures! {
    a_foreign_key: UnknownKey, Left, |c| c.put(ONE, b"zzz", b"?");
    a_foreign_kind_within_a_directory: UnknownKey, Left, |c| {
        let (shard, mut key) = c.content(c.dir("a"));
        key[17] = 99;
        c.put(shard, &key, b"?");
    };
    an_entry_that_cannot_be_read: UnreadableRecord, Left, |c| {
        let (shard, key) = c.entry(c.dir("a"), "small-data");
        c.put(shard, &key, b"\xffnonsense");
    };
    a_content_that_cannot_be_read: UnreadableRecord, Left, |c| {
        let (shard, key) = c.content(c.dir("deep"));
        c.put(shard, &key, b"");
    };
    a_header_that_cannot_be_read: UnreadableRecord, Left, |c| {
        let (shard, key) = c.header(c.dir("big").id, 0);
        c.put(shard, &key, b"");
    };
    a_link_inode_that_cannot_be_read: UnreadableRecord, Left, |c| {
        let (shard, key) = c.link_row(c.ino("linked"), Kind::Entry);
        c.put(shard, &key, b"");
    };
    names_that_the_disk_does_not_give_back: UnreadableBlock, Left, |c| {
        let (shard, key) = c.entry(c.dir("a"), "plain");
        let to = keys::after(&key);
        c.stores.gaps.push((shard, key..to));
    };
    a_content_away_from_home: MisplacedRow, Left, |c| {
        let (home, key) = c.content(c.dir("empty"));
        let content = c.get(home, &key).unwrap();
        c.put(ShardIndex((home.0 + 1) % support::SHARDS), &key, &content);
    };
    a_link_inode_on_another_shard: MisplacedRow, Left, |c| {
        let (home, key) = c.link_row(c.ino("linked"), Kind::Entry);
        let inode = c.get(home, &key).unwrap();
        c.put(ShardIndex((home.0 + 1) % support::SHARDS), &key, &inode);
    };
    an_entry_where_no_partition_is: RowOutsidePartition, Mended, |c| {
        let (shard, key) = c.entry(c.dir("a"), "plain");
        let entry = c.get(shard, &key).unwrap();
        c.put(ShardIndex((shard.0 + 1) % support::SHARDS), &key, &entry);
    };
    data_of_a_directory_that_is_not: RowOutsidePartition, Mended, |c| {
        c.put(TWO, &keys::dir(DirId([9; 16]), Kind::Inline, 48), b"data");
    };

    a_name_beside_its_hash: NameAtWrongOrder, Left, |c| {
        let entry = c.take(c.dir("a"), "plain");
        let (shard, key) = c.entry(c.dir("a"), "plain");
        let beside = keys::order_of(&key).unwrap().0 ^ 16;
        c.put(shard, &keys::dir(c.dir("a").id, Kind::Entry, beside), &entry.encode());
    };
    one_name_twice: NameTwice, Left, |c| {
        let (shard, key) = c.entry(c.dir("a"), "plain");
        c.change::<Entry>(shard, &key, |entry| entry.crowded = true);
        let mut twin = c.record::<Entry>(shard, &key);
        twin.crowded = false;
        file(&mut twin, |inode| inode.attr.ino = unused());
        c.put(shard, &next_ordinal(&key), &twin.encode());
        c.count(c.dir("a"), "plain", 1, 0);
    };
    a_record_that_tells_of_others: WrongCrowding, Mended, |c| {
        let (shard, key) = c.entry(c.dir("a"), "plain");
        c.change::<Entry>(shard, &key, |entry| entry.crowded = true);
    };
    a_first_record_that_is_gone: WrongCrowding, Mended, |c| {
        let entry = c.take(c.dir("a"), "plain");
        let (shard, key) = c.entry(c.dir("a"), "plain");
        c.put(shard, &next_ordinal(&key), &entry.encode());
    };
    a_vacant_record_that_stands_for_nothing: WrongCrowding, Mended, |c| {
        let order = c.volume.secrets.order(b"nobody");
        let (shard, _) = c.header(c.dir("a").id, order.0);
        let vacant = Entry { crowded: true, is: None };
        c.put(shard, &keys::dir(c.dir("a").id, Kind::Entry, order.0), &vacant.encode());
    };

    no_root: RootMissing, Left, |c| {
        let (shard, key) = c.content(ROOT);
        c.delete(shard, &key);
    };
    no_content: EntryWithoutContent, Left, |c| {
        let (shard, key) = c.content(c.dir("deep"));
        c.delete(shard, &key);
    };
    no_entry: DirectoryWithoutEntry, Mended, |c| drop(c.take(ROOT, "a"));
    no_entry_in_a_directory_that_has_split: DirectoryWithoutEntry, Mended, |c| {
        drop(c.take(c.dir("big"), "within"));
    };
    no_entry_and_another_file_in_its_place: DirectoryWithoutEntry, Left, |c| {
        let mut entry = c.take(c.dir("b"), "linked-too");
        entry = Entry { is: entry.is.map(|(_, value)| (name("a"), value)), ..entry };
        drop(c.take(ROOT, "a"));
        c.put_name(ROOT, "a", entry.is.unwrap().1);
        // The inode records its name, so the record moves with the name.
        let ino = c.ino("linked");
        let shard = c.volume.map.link(ino);
        c.delete(shard, &keys::link_name(ino, c.dir("b").id, b"linked-too"));
        let known = LinkedName { dir: ROOT, name: name("a") };
        c.put(shard, &keys::link_name(ino, DirId::ROOT, b"a"), &known.encode());
        c.count(c.dir("b"), "linked-too", -1, 0);
    };
    an_entry_of_an_earlier_directory: EntryOfOtherLife, Left, |c| {
        change_access(c, ROOT, "empty", |access| access.dir.ino = unused());
    };
    a_second_entry: DirectoryNamedTwice, Mended, |c| {
        let (shard, key) = c.entry(ROOT, "empty");
        let entry = c.record::<Entry>(shard, &key);
        c.put_name(c.dir("b"), "again", entry.is.unwrap().1);
        c.count(c.dir("b"), "again", 1, 1);
    };
    another_parent: WrongParentPointer, Mended, |c| {
        let (shard, key) = c.content(c.dir("empty"));
        let parent = c.dir("b");
        c.put_parent(shard, &key, parent);
    };
    a_root_with_a_parent: WrongParentPointer, Mended, |c| {
        let (shard, key) = c.content(ROOT);
        let parent = c.dir("b");
        c.put_parent(shard, &key, parent);
    };
    a_loop: DirectoryLoop, Left, |c| {
        let (a, deeper) = (c.dir("a"), c.dir("deeper"));
        let entry = c.take(ROOT, "a");
        c.count(ROOT, "a", -1, -1);
        c.put_name(deeper, "a", entry.is.unwrap().1);
        c.count(deeper, "a", 1, 1);
        let (shard, key) = c.content(a);
        c.put_parent(shard, &key, deeper);
    };
    an_entry_with_another_mode: WrongPermissionCopy, Mended, |c| {
        change_access(c, ROOT, "empty", |access| access.mode = 0o777);
    };
    a_partition_with_another_owner: WrongPermissionCopy, Mended, |c| {
        let (shard, key) = c.header(c.dir("big").id, Order::END - 1);
        c.change::<Header>(shard, &key, |header| header.inherit.uid = 77);
    };
    a_directory_with_links: WrongDirectoryAttributes, Mended, |c| {
        let (shard, key) = c.content(c.dir("empty"));
        c.change::<Content>(shard, &key, |content| content.base.nlink = 7);
    };
    a_tombstone: TombstoneLeft, Mended, |c| {
        let (shard, key) = c.content(c.dir("empty"));
        let mut content = c.record::<Content>(shard, &key);
        (content.tombstone, content.base.ino) = (true, unused());
        let id = elsewhere(c, shard);
        c.put(shard, &keys::dir(id, Kind::Content, 0), &content.encode());
    };

    a_partition_of_nothing: PartitionWithoutContent, Mended, |c| {
        let (shard, key) = c.header(c.dir("empty").id, 0);
        let mut header = c.record::<Header>(shard, &key);
        header.ino = unused();
        let id = elsewhere(c, shard);
        c.put(shard, &keys::dir(id, Kind::Header, 0), &header.encode());
    };
    a_partition_of_an_earlier_directory: PartitionOfOtherLife, Left, |c| {
        let (shard, key) = c.header(c.dir("big").id, Order::END - 1);
        c.change::<Header>(shard, &key, |header| header.ino = unused());
    };
    a_gap_between_partitions: PartitionsDoNotTile, Left, |c| {
        let (shard, key) = c.header(c.dir("big").id, Order::END - 1);
        c.delete(shard, &key);
    };
    no_partition_at_all: PartitionsDoNotTile, Left, |c| {
        let (shard, key) = c.header(c.dir("a").id, 0);
        c.delete(shard, &key);
    };
    another_spread: MisplacedPartition, Left, |c| {
        let (shard, key) = c.header(c.dir("big").id, Order::END - 1);
        let spread = Spread { base: ONE, servers: 1, per_server: 1 };
        c.change::<Header>(shard, &key, |header| header.spread = Some(spread));
    };
    too_many_counted: WrongEntryCount, Mended, |c| c.count(c.dir("a"), "plain", 1, 0);
    too_few_directories_counted: WrongEntryCount, Mended, |c| c.count(ROOT, "a", 0, -1);
    a_file_that_vanished: WrongEntryCount, Mended, |c| drop(c.take(c.dir("a"), "plain"));

    links_of_a_file_with_one_name: WrongLinkCount, Mended, |c| {
        change_file(c, c.dir("a"), "plain", |inode| inode.attr.nlink = 5);
    };
    links_of_a_file_with_three_names: WrongLinkCount, Mended, |c| {
        let (shard, key) = c.link_row(c.ino("linked"), Kind::Entry);
        c.change::<Inode>(shard, &key, |inode| inode.attr.nlink = 2);
    };
    names_without_an_inode: LinkWithoutInode, Left, |c| {
        let (shard, key) = c.link_row(c.ino("linked"), Kind::Entry);
        for (key, _) in c.rows(shard, &key[..11]) {
            c.delete(shard, &key);
        }
    };
    a_name_the_inode_does_not_know: LinkNameMissing, Mended, |c| {
        let ino = c.ino("linked");
        let shard = c.volume.map.link(ino);
        c.delete(shard, &keys::link_name(ino, c.dir("b").id, b"linked-too"));
    };
    a_name_that_only_the_inode_knows: LinkNameWithoutEntry, Mended, |c| {
        drop(c.take(c.dir("b"), "linked-too"));
        c.count(c.dir("b"), "linked-too", -1, 0);
    };
    a_name_of_another_kind: WrongLinkKind, Mended, |c| {
        let (shard, key) = c.entry(c.dir("b"), "linked-too");
        c.change::<Entry>(shard, &key, |entry| {
            if let Some((_, EntryValue::Linked(_, kind))) = &mut entry.is {
                *kind = FileKind::Fifo;
            }
        });
    };
    one_number_for_two_files: InoTwice, Left, |c| {
        let ino = c.ino("plain");
        let (shard, key) = c.entry(c.dir("a"), "pipe");
        let mut entry = c.record::<Entry>(shard, &key);
        file(&mut entry, |inode| inode.attr.ino = ino);
        c.put(shard, &key, &entry.encode());
    };
    one_number_for_a_file_and_a_directory: InoTwice, Left, |c| {
        let ino = c.dir("empty").ino;
        let (shard, key) = c.entry(c.dir("a"), "pipe");
        let mut entry = c.record::<Entry>(shard, &key);
        file(&mut entry, |inode| inode.attr.ino = ino);
        c.put(shard, &key, &entry.encode());
    };
    a_file_without_names: Orphan, Mended, |c| {
        let (shard, key) = c.entry(c.dir("a"), "big-data");
        let Some((_, EntryValue::File(mut inode))) = c.record::<Entry>(shard, &key).is else {
            panic!("not a file")
        };
        (inode.attr.ino, inode.attr.nlink) = (unused(), 0);
        let (shard, key) = c.link_row(unused(), Kind::Entry);
        c.put(shard, &key, &inode.encode());
        let object = ObjectId(5 << 64 | 5);
        c.bucket.0.insert(object, 10_000 + support::TRAILER);
        let slice = slice_of(object, 10_000);
        let (_, mut key) = c.link_row(unused(), Kind::Slice);
        key.extend_from_slice(&0u64.to_be_bytes());
        c.put(shard, &key, &slice.encode());
    };
    data_of_no_file: StrayRow, Mended, |c| {
        let (shard, key) = c.beside(c.dir("a"), "nobody", Kind::Inline);
        c.put(shard, &key, b"data");
    };
    attributes_of_a_file_that_is_linked: StrayRow, Mended, |c| {
        let (shard, key) = c.beside(c.dir("b"), "linked-too", Kind::Xattr);
        c.put(shard, &key, &Xattrs(vec![(b"user.x".to_vec(), vec![])]).encode());
    };
    a_name_of_no_link_inode: StrayRow, Mended, |c| {
        let known = LinkedName { dir: ROOT, name: name("x") };
        let shard = c.volume.map.link(unused());
        c.put(shard, &keys::link_name(unused(), DirId::ROOT, b"x"), &known.encode());
    };
    attributes_of_no_directory: StrayRow, Mended, |c| {
        let id = elsewhere(c, ONE);
        c.put(ONE, &keys::dir(id, Kind::DirXattr, 0), &Xattrs::default().encode());
    };
    a_link_without_target: WrongDataLayout, Left, |c| {
        let (shard, key) = c.beside(c.dir("a"), "symlink", Kind::Inline);
        c.delete(shard, &key);
    };
    data_beyond_the_end: WrongDataLayout, Left, |c| {
        let (shard, key) = c.beside(c.dir("a"), "small-data", Kind::Inline);
        c.put(shard, &key, &[7; 100]);
    };
    slices_that_overlap: WrongDataLayout, Left, |c| {
        let (shard, mut key) = c.beside(c.dir("a"), "big-data", Kind::Slice);
        key.extend_from_slice(&100u64.to_be_bytes());
        let slice = Slice { offset: 100, ..slice_of(c.made.object, 10_000) };
        c.put(shard, &key, &slice.encode());
    };
    attributes_that_are_gone: WrongXattrFlag, Mended, |c| {
        let (shard, key) = c.beside(c.dir("a"), "attributed", Kind::Xattr);
        c.delete(shard, &key);
    };
    attributes_that_nobody_expects: WrongXattrFlag, Left, |c| {
        change_file(c, c.dir("a"), "attributed", |inode| inode.has_xattrs = false);
    };

    no_numbers: NumbersMissing, Left, |c| c.delete(ONE, &keys::table(Table::Numbers));
    numbers_that_went_back: InoBeyondCounter, Mended, |c| {
        let shard = c.dir("empty").ino.allocator();
        let key = keys::table(Table::Numbers);
        c.change::<Numbers>(shard, &key, |numbers| numbers.inos = 16);
    };
    transactions_that_went_back: TransactionBeyondCounter, Mended, |c| {
        let (of, _) = c.floor();
        c.change::<Numbers>(of, &keys::table(Table::Numbers), |numbers| numbers.txns = 1);
    };
    a_number_that_never_was: InoBeyondCounter, Left, |c| {
        let highest = (1 << Ino::COUNTER_BITS) - 1;
        change_file(c, c.dir("a"), "plain", |inode| inode.attr.ino = Ino::new(ONE, highest));
    };
    a_transaction_that_never_was: TransactionBeyondCounter, Left, |c| {
        c.put(ONE, &keys::finished(TxnId { shard: ZERO, number: u64::MAX }, 0), b"");
    };
    a_number_of_a_shard_that_is_not: InoBeyondCounter, Left, |c| {
        change_file(c, c.dir("a"), "plain", |inode| inode.attr.ino = Ino::new(ShardIndex(9), 7));
    };
    wrong_sums: WrongUsage, Mended, |c| {
        c.change::<Stat>(TWO, &keys::table(Table::Stat), |stat| stat.bytes += 1);
    };

    a_session_that_is_over: SessionNotEverywhere, Mended, |c| {
        all_have_heard(c);
        c.put(TWO, &keys::session(STRANGER), &SessionRecord { root: ROOT, key: Some(KeyId::OWNER), over: None }.encode());
    };
    a_session_that_one_shard_lacks: SessionNotEverywhere, Mended, |c| {
        all_have_heard(c);
        for shard in [ZERO, ONE, TWO] {
            c.put(shard, &keys::session(STRANGER), &SessionRecord { root: ROOT, key: Some(KeyId::OWNER), over: None }.encode());
        }
    };
    a_session_of_two_keys: SessionOfTwoKeys, Mended, |c| {
        all_shards_know(c);
        let record = SessionRecord { root: ROOT, key: Some(KeyId(9)), over: None };
        c.put(TWO, &keys::session(STRANGER), &record.encode());
    };
    an_open_of_a_session_that_is_over: OpenOfUnknownSession, Mended, |c| {
        all_have_heard(c);
        let (shard, key) = c.entry(c.dir("a"), "plain");
        let at = OpenAt::Name(c.dir("a").id, keys::order_of(&key).unwrap().0);
        c.put(shard, &keys::open(c.ino("plain"), STRANGER), &Open { count: 1, at }.encode());
    };
    a_lock_of_a_session_that_is_over: LockOfUnknownSession, Mended, |c| {
        all_have_heard(c);
        let (shard, _) = c.link_row(c.ino("plain"), Kind::Entry);
        c.put(shard, &keys::lock(c.ino("plain"), STRANGER), &LockSet::default().encode());
    };
    a_lock_where_nobody_looks: MisplacedRow, Left, |c| {
        all_shards_know(c);
        let (shard, _) = c.link_row(c.ino("plain"), Kind::Entry);
        let other = if shard == ONE { TWO } else { ONE };
        c.put(other, &keys::lock(c.ino("plain"), STRANGER), &LockSet::default().encode());
    };
    an_open_of_no_file: OpenWithoutInode, Mended, |c| {
        all_shards_know(c);
        let open = Open { count: 1, at: OpenAt::Link };
        c.put(ONE, &keys::open(unused(), STRANGER), &open.encode());
    };
    an_open_of_a_name_that_leads_elsewhere: OpenWithoutInode, Mended, |c| {
        all_shards_know(c);
        let (shard, key) = c.entry(c.dir("a"), "plain");
        let at = OpenAt::Name(c.dir("a").id, keys::order_of(&key).unwrap().0);
        c.put(shard, &keys::open(c.ino("pipe"), STRANGER), &Open { count: 1, at }.encode());
    };
    an_outcome_of_a_session_that_is_over: OutcomeOfUnknownSession, Mended, |c| {
        all_have_heard(c);
        let outcome = Outcome { sequence: 3, result: None, at: None };
        c.put(TWO, &keys::outcome(STRANGER, 0), &outcome.encode());
    };

    a_decision_that_nobody_is_prepared_for: DecisionWithoutParticipant, Left, |c| {
        decided(c, 1);
    };
    a_step_of_a_shard_that_is_not: StepOfUnknownTransaction, Mended, |c| {
        let txn = TxnId { shard: ShardIndex(77), number: 1 };
        c.put(ONE, &keys::prepared(txn, 0), &prepared(c, Prepare::Home(c.dir("empty"))));
    };
    a_partition_on_its_way_from_nowhere: StepOfUnknownTransaction, Mended, |c| {
        let txn = TxnId { shard: ShardIndex(77), number: 1 };
        arriving(c, txn, c.dir("big"), 9);
    };
    two_that_hold_one_place: LockHeldTwice, Left, |c| {
        let (home, _) = c.content(c.dir("empty"));
        for shard in [ONE, TWO] {
            let txn = TxnId { shard, number: 1 };
            c.put(home, &keys::prepared(txn, 0), &prepared(c, Prepare::Home(c.dir("empty"))));
        }
    };
    a_step_that_should_be_forgotten: StepBelowFloor, Mended, |c| {
        let (of, at) = c.floor();
        c.put(at, &keys::finished(TxnId { shard: of, number: 0 }, 3), b"");
    };
    a_decision_given_up: FloorAboveTransaction, Mended, |c| {
        let number = decided(c, 1);
        let txn = TxnId { shard: ZERO, number };
        let record = prepared(c, Prepare::Join);
        // Finished steps below the floor are forgotten when the floor rises.
        let done = keys::finished(TxnId { shard: ZERO, number: 0 }, 0);
        for (key, _) in c.rows(ONE, &done[..4]) {
            c.delete(ONE, &key);
        }
        c.put(ONE, &keys::prepared(txn, 1), &record);
        c.put(ONE, &keys::floor(ZERO), &Floor::below(number + 1).encode());
    };
    two_owners_of_a_hash_slot: SlotOwnersDiffer, Left, |c| {
        let hash_slot = empty_hash_slot(c);
        c.put(ONE, &keys::owner(hash_slot), &Owner { version: 1, owner: TWO }.encode());
        c.put(TWO, &keys::owner(hash_slot), &Owner { version: 1, owner: ONE }.encode());
    };
    an_owner_who_does_not_know: SlotOwnerUnknown, Left, |c| {
        let hash_slot = empty_hash_slot(c);
        c.put(ONE, &keys::owner(hash_slot), &Owner { version: 1, owner: TWO }.encode());
    };
    an_owner_who_cannot_be: SlotOwnerUnknown, Left, |c| {
        let hash_slot = empty_hash_slot(c);
        c.put(ONE, &keys::owner(hash_slot), &Owner { version: 1, owner: ShardIndex(77) }.encode());
    };
    a_header_of_a_slot_that_does_not_come: StrayRow, Mended, |c| {
        let id = elsewhere(c, ONE);
        c.put(ONE, &keys::dir(id, Kind::StagedHeader, 0), b"whatever it says");
    };
    a_partition_on_its_way_to_itself: ArrivalInPartition, Mended, |c| {
        arriving(c, TxnId { shard: ONE, number: 1 }, c.dir("empty"), 1);
    };

    an_object_that_is_gone: ObjectMissing, Left, |c| c.bucket.0.clear();
    an_object_that_was_cut: ObjectTooShort, Left, |c| {
        c.bucket.0.insert(c.made.object, 10_000);
    };
    an_object_of_nobody: ObjectUnnamed, Mended, |c| {
        c.bucket.0.insert(ObjectId(77 << 64 | 1), 5);
    };
    an_object_of_two_files: ObjectNamedTwice, Left, |c| {
        let (shard, mut key) = c.beside(c.dir("a"), "plain", Kind::Slice);
        key.extend_from_slice(&0u64.to_be_bytes());
        c.put(shard, &key, &slice_of(c.made.object, 10_000).encode());
        change_file(c, c.dir("a"), "plain", |inode| {
            (inode.is_inline, inode.attr.size) = (false, 10_000);
        });
    };
    an_object_that_is_to_go: GarbageStillNamed, Mended, |c| {
        c.put(TWO, &keys::garbage(c.made.object), &[1]);
    };
}

/// An ino that was given once, and that nothing has.
fn unused() -> Ino {
    Ino::new(ShardIndex(3), 20_000)
}

/// An id that no directory has, with its home on `shard`.
fn elsewhere(c: &Cluster, shard: ShardIndex) -> DirId {
    let ids = (0..=255).map(|n| DirId([n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6]));
    ids.into_iter().find(|id| c.volume.map.home(*id) == shard).unwrap()
}

/// A hash slot without any rows.
fn empty_hash_slot(c: &Cluster) -> HashSlot {
    let rows = Cluster::all_shards().flat_map(|shard| c.rows(shard, b""));
    let used: BTreeSet<_> = rows.filter_map(|(key, _)| keys::hash_slot_of_row(&key)).collect();
    (1..).map(HashSlot).find(|hash_slot| !used.contains(hash_slot)).unwrap()
}

fn next_ordinal(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    *next.last_mut().unwrap() += 1;
    next
}

fn file(entry: &mut Entry, change: impl Fn(&mut Inode)) {
    match &mut entry.is {
        Some((_, EntryValue::File(inode))) => change(inode),
        other => panic!("{other:?}"),
    }
}

fn change_file(c: &mut Cluster, dir: DirRef, child: &str, change: impl Fn(&mut Inode)) {
    let (shard, key) = c.entry(dir, child);
    c.change::<Entry>(shard, &key, |entry| file(entry, &change));
}

fn change_access(
    c: &mut Cluster,
    dir: DirRef,
    child: &str,
    change: impl Fn(&mut pando_types::reply::Access),
) {
    let (shard, key) = c.entry(dir, child);
    c.change::<Entry>(shard, &key, |entry| match &mut entry.is {
        Some((_, EntryValue::Dir(access))) => change(access),
        other => panic!("{other:?}"),
    });
}

fn slice_of(object: ObjectId, len: u64) -> Slice {
    Slice { offset: 0, range: support::object_range(object, len) }
}

/// All shards have heard of equally many sessions, the stranger's among them.
fn all_have_heard(c: &mut Cluster) {
    for shard in Cluster::all_shards() {
        let heard = SessionsHeard { position: 99, last: 99 };
        c.put(shard, &keys::table(Table::Session), &heard.encode());
    }
}

fn all_shards_know(c: &mut Cluster) {
    all_have_heard(c);
    for shard in Cluster::all_shards() {
        c.put(
            shard,
            &keys::session(STRANGER),
            &SessionRecord { root: ROOT, key: Some(KeyId::OWNER), over: None }.encode(),
        );
    }
}

fn prepared(c: &Cluster, prepare: Prepare) -> Vec<u8> {
    Prepared { place: Place::Home(c.dir("empty")), prepare }.encode()
}

/// Makes shard 0 decide that another shard joins. Returns the number of the transaction.
fn decided(c: &mut Cluster, shard: u16) -> u64 {
    let numbers = c.record::<Numbers>(ZERO, &keys::table(Table::Numbers));
    let number = numbers.txns - 1;
    let steps = vec![(1, ShardIndex(shard), vec![Change::Join(SessionTable::default())])];
    let request = Default::default();
    let what = "join".to_owned();
    let decided = Decided { what, request, steps, then: Vec::new(), next_step: 2 };
    c.put(ZERO, &keys::txn(number), &decided.encode());
    number
}

/// Records that a part of a directory is arriving on the shard that already has its first orders.
/// With `partition` 9 it is a directory that does not exist.
fn arriving(c: &mut Cluster, txn: TxnId, dir: DirRef, partition: u32) {
    let (shard, _) = c.header(dir.id, 0);
    let radix = pando_placement::birth_radix(PartitionIndex(partition));
    let dir = if partition == 9 { DirRef { id: elsewhere(c, shard), ..dir } } else { dir };
    let record =
        Arriving { txn, dir, radix: Radix(radix.0), next_page: 1, tally: Default::default() };
    c.put(shard, &keys::arrival(dir.id, PartitionIndex(partition)), &record.encode());
}
