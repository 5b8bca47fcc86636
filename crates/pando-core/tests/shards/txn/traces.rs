//! One operation can be followed through all shards by its trace.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::Op;
use pando_types::peer::PeerMessage;
use pando_types::{DirRef, TxnId};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;

/// For each transaction, traces and kinds of its messages.
#[derive(Default)]
struct Heard(BTreeMap<TxnId, (BTreeSet<u64>, BTreeSet<&'static str>)>);

impl Heard {
    fn hear(&mut self, txn: TxnId, trace: u64, message: &PeerMessage) {
        let word = match message {
            PeerMessage::Prepare(..) => "prepare",
            PeerMessage::Voted(_) => "voted",
            PeerMessage::Finish(_) => "finish",
            PeerMessage::Finished => "finished",
            _ => return,
        };
        let (traces, words) = self.0.entry(txn).or_default();
        traces.insert(trace);
        words.insert(word);
    }

    /// Notes and delivers messages until there are none.
    fn deliver(&mut self, c: &mut Cluster) {
        loop {
            let messages = c.take(|_, _| true);
            if messages.is_empty() {
                return;
            }
            for (_, peer) in &messages {
                self.hear(peer.txn, peer.trace, &peer.message);
            }
            let count = messages.len();
            c.put_back(messages);
            (0..count).for_each(|_| assert!(c.step()));
        }
    }
}

fn mkdirs(c: &mut Cluster, prefix: &str) -> Vec<u64> {
    let owner = c.home(ROOT);
    let ops = (0..20).map(|n| Op::Mkdir(ROOT, c.name(&format!("{prefix}{n}")), 0o755));
    let ops: Vec<_> = ops.collect();
    ops.into_iter().map(|op| c.send(owner, op)).collect()
}

#[test]
fn messages_between_shards_and_the_reply_carry_the_trace_of_their_request() {
    let mut c = Cluster::new(2, 1000);
    let tags = mkdirs(&mut c, "a");
    let mut heard = Heard::default();
    heard.deliver(&mut c);
    for tag in &tags {
        let reply = c.reply(*tag).expect("it is answered");
        assert!(reply.result.is_ok() && reply.trace == *tag, "{reply:?}");
    }
    assert!(heard.0.len() > 3, "some directories live on the other shard");
    let mut found = BTreeSet::new();
    for (txn, (traces, words)) in &heard.0 {
        assert_eq!(traces.len(), 1, "{txn}: {traces:?}");
        assert_eq!(words.len(), 4, "{txn}: {words:?}");
        assert!(traces.iter().all(|trace| tags.contains(trace) && found.insert(*trace)));
    }
}

#[test]
fn what_is_said_again_carries_it_too() {
    let mut c = Cluster::new(2, 1000);
    let tags: BTreeSet<_> = mkdirs(&mut c, "a").into_iter().collect();
    let mut heard = Heard::default();
    for _ in 0..4 {
        // All messages are lost.
        for (_, peer) in c.take(|_, _| true) {
            heard.hear(peer.txn, peer.trace, &peer.message);
        }
        c.tick(c.all(), 300_000_000);
    }
    heard.deliver(&mut c);
    assert!(heard.0.len() > 3);
    for (txn, (traces, words)) in &heard.0 {
        assert!(traces.len() == 1 && traces.is_subset(&tags), "{txn}: {traces:?}");
        assert_eq!(words.len(), 4, "{txn}: {words:?}");
    }
}
