//! Faults that are planted into the check are found by the tests of single damages.

#[path = "../../../babu/tests/store/common/found.rs"]
mod found;

use pando_core::keys::{self, Kind};
use pando_core::record::{Entry, Record};
use pando_fsck::{Code, Planted};
use pando_types::peer::{EntryValue, Inode};
use pando_types::{Ino, ShardIndex};

use crate::support::Cluster;
use crate::support::finds::Then::{Left, Mended};
use crate::support::finds::{Then, finds};

fn is_found(fault: Planted, words: &str, code: Code, then: Then, inflict: fn(&mut Cluster)) {
    let plant = |is_planted: bool| Planted::plant(is_planted.then_some(fault));
    found::is_found_as(words, plant, |_| finds(code, then, inflict));
}

#[test]
fn a_link_count_that_is_not_compared() {
    is_found(Planted::NamesUncounted, "what is found", Code::WrongLinkCount, Mended, |c| {
        let (shard, key) = c.link_row(c.ino("linked"), Kind::Entry);
        c.change::<Inode>(shard, &key, |inode| inode.attr.nlink = 2);
    });
}

#[test]
fn an_orphan_that_is_never_reported() {
    is_found(Planted::OrphanUnreported, "what is found", Code::Orphan, Mended, |c| {
        let (shard, key) = c.entry(c.dir("a"), "plain");
        let Some((_, EntryValue::File(mut inode))) = c.record::<Entry>(shard, &key).is else {
            panic!("not a file")
        };
        // An ino that was given once, and that nothing has.
        (inode.attr.ino, inode.attr.nlink) = (Ino::new(ShardIndex(3), 20_000), 0);
        let (shard, key) = c.link_row(inode.attr.ino, Kind::Entry);
        c.put(shard, &key, &inode.encode());
    });
}

#[test]
fn a_layout_that_is_not_looked_at() {
    is_found(Planted::MisfitUnseen, "what is found", Code::WrongDataLayout, Left, |c| {
        let (shard, key) = c.beside(c.dir("a"), "symlink", Kind::Inline);
        c.delete(shard, &key);
    });
}

#[test]
fn a_repair_that_removes_a_needed_object() {
    is_found(
        Planted::ObjectRepaired,
        "what a repair leaves",
        Code::GarbageStillNamed,
        Mended,
        |c| {
            c.put(ShardIndex(2), &keys::garbage(c.made.object), &[1]);
        },
    );
}
