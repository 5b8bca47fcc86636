//! A shard meets an unreadable block while it decides a handover. It gives nothing away and drops
//! nothing. What was closed for the exchange is open again.

use std::collections::BTreeSet;

use pando_types::op::Op;
use pando_types::peer::PeerMessage;
use pando_types::{DirRef, ShardIndex};

use crate::support::{Cluster, Fault, dir_at};

const ROOT: DirRef = DirRef::ROOT;
/// More reads than a decision makes.
const READS: u64 = 12;
const MINUTES: u64 = 700_000_000_000;

fn names(c: &mut Cluster, dir: DirRef) -> BTreeSet<String> {
    c.list(dir).into_iter().collect()
}

/// Delivers the vote that a move waits for, while a read fails. Returns whether one did.
fn fail_at_vote(c: &mut Cluster, read: u64) -> bool {
    while !c.messages().any(|(_, peer)| matches!(peer.message, PeerMessage::Voted(_))) {
        assert!(c.step());
    }
    c.fail(Fault::Read, read);
    assert!(c.step());
    c.has_failed()
}

#[test]
fn a_hash_slot_that_could_not_be_given_away_is_whole_and_open() {
    let mut failed = 0;
    for read in 0..READS {
        let mut c = Cluster::new(2, 1_000);
        let (name, dir) = dir_at(&mut c, ROOT, "dir", |at| at.0 == 1);
        for n in 0..5 {
            c.create(dir, &format!("f{n}")).unwrap();
        }
        c.settle();
        let (from, to) = (ShardIndex(1), ShardIndex(0));
        let hash_slot = dir.id.hash_slot();
        c.ask(from, Op::HandOver(from, hash_slot, to)).expect("an answer at once").unwrap();
        let has_failed = fail_at_vote(&mut c, read);
        failed += u64::from(has_failed);
        c.wait(MINUTES);
        assert_eq!(names(&mut c, dir).len(), 5, "read {read}");
        assert!(c.lookup(ROOT, &name).is_ok());
        c.create(dir, "new").unwrap();
        c.settle();
        assert_eq!(c.in_flight(), [0; 4], "read {read}");
        let (from, to) = if has_failed { (from, to) } else { (to, from) };
        c.ask(from, Op::HandOver(from, hash_slot, to)).expect("an answer at once").unwrap();
        c.settle();
        assert!(c.partitions([from], dir).is_empty(), "read {read}");
        assert_eq!(names(&mut c, dir).len(), 6, "read {read}");
    }
    assert!(failed > 2, "{failed}");
}
