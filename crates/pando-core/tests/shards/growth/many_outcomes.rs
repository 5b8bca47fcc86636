//! More sessions than a message has room for outcomes. Splits, merges and handovers end all the
//! same. Every repetition is answered where its name has gone.

use pando_core::Config;
use pando_types::op::{Op, RequestId};
use pando_types::peer::{Peer, PeerMessage, RowChange};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, SessionId, ShardIndex};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;
const SESSIONS: u64 = 120;
/// Largest message. All outcomes fill it many times.
const FRAME: usize = 4_000;
const PAGE: usize = 1_000;

/// The last request of a session, and its answer.
struct Done {
    id: RequestId,
    op: Op,
    name: String,
    answer: Result<Body, Refusal>,
}

fn cluster(change: impl Fn(&mut Config)) -> Cluster {
    let mut c = Cluster::with(2, |config| {
        (config.partitions_per_shard, config.outcome_bytes) = (1, PAGE);
        change(config);
    });
    c.frame_max = FRAME;
    c
}

/// Makes one file in each session. Messages that follow are not delivered.
fn made(c: &mut Cluster, dir: DirRef, sessions: &[SessionId]) -> Vec<Done> {
    let owner = c.owner(dir, "f");
    let make = |(n, session): (usize, &SessionId)| {
        let name = format!("f{n}");
        let id = RequestId { session: *session, slot: 1, sequence: 1 };
        let op = c.create_op(dir, &name);
        let tag = c.send(owner, (id, op.clone()));
        Done { id, op, name, answer: c.answer(tag).expect("at once") }
    };
    sessions.iter().enumerate().map(make).collect()
}

fn sessions(c: &mut Cluster) -> Vec<SessionId> {
    let begin = |_| c.begin_session(Op::OpenSession);
    (0..SESSIONS).map(begin).collect()
}

/// Checks that every repetition gets its first answer. A shard without the name may redirect
/// instead.
fn check(c: &mut Cluster, dir: DirRef, done: &[Done]) {
    for Done { id, op, name, answer } in done {
        let owner = c.owner(dir, name);
        assert_eq!(c.run(owner, (*id, op.clone())), *answer, "{name}");
        let other = ShardIndex(1 - owner.0);
        let strayed = c.run(other, (*id, op.clone()));
        assert!(
            strayed == *answer
                || matches!(
                    strayed,
                    Err(Refusal::Redirect(_) | Refusal::HashSlot(_) | Refusal::AskHome)
                ),
            "{strayed:?}"
        );
    }
    let mut names = c.list(dir);
    names.retain(|name| name.starts_with('f'));
    assert_eq!(names.len(), done.len());
}

fn is_outcomes(peer: &Peer) -> bool {
    let is = |row: &RowChange| matches!(row, RowChange::Put(key, _) if key.starts_with(&pando_core::keys::table(pando_core::keys::Table::Outcome)));
    match &peer.message {
        PeerMessage::Page { rows, .. } | PeerMessage::HashSlotPage { rows, .. } => {
            rows.iter().any(is)
        }
        _ => false,
    }
}

fn splits(c: &Cluster) -> u64 {
    c.counters().iter().map(|counters| counters.splits_moved).sum()
}

#[test]
fn a_split_ends_and_takes_all_of_them_along() {
    for dies in [false, true] {
        let mut c = cluster(|config| config.split_threshold = 100);
        let all = sessions(&mut c);
        let dir = c.mkdir(ROOT, "dir").unwrap();
        let done = made(&mut c, dir, &all);
        while !c.messages().any(|(_, peer)| is_outcomes(peer)) {
            assert!(c.step(), "outcomes are sent in pages");
        }
        if dies {
            // Between two pages. The split is given up and begins again.
            let target = ShardIndex(1 - c.owner(dir, "f0").0);
            c.restart([target]);
            c.tick(c.all(), 1_000_000_000);
        }
        c.settle();
        if dies {
            c.create(dir, "one-more").unwrap();
            c.settle();
        }
        assert!(splits(&c) > 0);
        check(&mut c, dir, &done);
        assert_eq!(c.in_flight()[..3], [0, 0, 0]);
        c.restart(c.all());
        c.settle();
        check(&mut c, dir, &done);
    }
}

#[test]
fn a_handover_ends_and_takes_all_of_them_along() {
    let mut c = cluster(|config| config.split_threshold = 10_000);
    let all = sessions(&mut c);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    let done = made(&mut c, dir, &all);
    c.settle();
    let from = c.home(dir);
    let to = ShardIndex(1 - from.0);
    let begun = c.ask(from, Op::HandOver(from, dir.id.hash_slot(), to));
    assert_eq!(begun, Some(Ok(Body::Done)));
    c.settle();
    assert_eq!(c.owner(dir, "f0"), to);
    check(&mut c, dir, &done);
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
}
