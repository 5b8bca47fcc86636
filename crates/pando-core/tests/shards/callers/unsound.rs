//! Impossible messages, as a faulty server may send them. Each is refused and counted, and the
//! shard goes on.

use crate::support::Cluster;
use pando_core::keys::{self, Kind};
use pando_core::record::{Entry, Header, Record};
use pando_types::op::Place;
use pando_types::peer::{
    Arrival, Behalf, Change, Claim, EntryRows, EntryValue, Floor, HashSlotArrival, Inherit,
    InodeRows, Peer, PeerMessage, Prepare, RowChange, Seen, SessionTable, SessionsTold, Tally,
    Vote,
};
use pando_types::reply::{Access, HashSlotNews};
use pando_types::{
    DirId, DirRef, Epoch, Errno, HashSlot, Ino, Order, PartitionIndex, Radix, SessionId,
    ShardIndex, Timestamp, TxnId,
};

const ROOT: DirRef = DirRef::ROOT;
const ONE: ShardIndex = ShardIndex(1);
const HERE: ShardIndex = ShardIndex(0);

fn txn(number: u64) -> TxnId {
    TxnId { shard: ONE, number: (1 << 40) + number }
}

fn peer(number: u64, message: PeerMessage) -> Peer {
    let (from, txn) = (ONE, txn(number));
    Peer {
        from,
        trace: 0,
        clock: 0,
        behalf: Behalf::default(),
        txn,
        step: 0,
        floor: Floor::default(),
        message,
    }
}

/// Delivers a message to a shard. Returns what the shard sends in turn.
fn hear(c: &mut Cluster, to: ShardIndex, peer: Peer) -> Vec<PeerMessage> {
    c.take_sent();
    c.deliver([(to, peer)]);
    let from = |peer: &Peer| peer.from == to;
    c.take_sent()
        .into_iter()
        .filter(|(.., peer)| from(peer))
        .map(|(.., peer)| peer.message)
        .collect()
}

fn bad(c: &Cluster, shard: ShardIndex) -> u64 {
    c.counters()[usize::from(shard.0)].bad_messages
}

/// Checks that a message is refused with this answer, and that nothing changes.
fn refused(c: &mut Cluster, to: ShardIndex, peer: Peer, answer: &[PeerMessage]) {
    let (before, rows, locks) = (bad(c, to), c.rows(), c.in_flight());
    assert_eq!(hear(c, to, peer.clone()), answer, "{peer:?}");
    assert_eq!((bad(c, to), c.in_flight()), (before + 1, locks), "{peer:?}");
    assert_eq!(c.rows(), rows, "{peer:?}");
}

fn cluster() -> Cluster {
    let mut c = Cluster::new(3, 100);
    c.expects_bad = true;
    c
}

fn no() -> [PeerMessage; 1] {
    [PeerMessage::Voted(Vote::No(Errno::EIO))]
}

fn works(c: &mut Cluster) {
    c.settle();
    let dir = c.mkdir(ROOT, "d").unwrap();
    c.create(dir, "f").unwrap();
    c.rename(dir, "f", ROOT, "f").unwrap();
    c.unlink(ROOT, "f").unwrap();
    c.rmdir(ROOT, "d").unwrap();
}

/// Rows that do not belong to the move: of the target's own, of another directory, of length 0, or
/// undecodable.
fn bad_rows(dir: DirId) -> Vec<RowChange> {
    let entry = Entry { crowded: false, is: None }.encode();
    let end = keys::dir(dir, Kind::Entry, 1 << 61);
    vec![
        RowChange::Put(keys::session(SessionId(1)), entry.clone()),
        RowChange::Put(keys::dir(DirId([3; 16]), Kind::Entry, 1 << 61), entry.clone()),
        RowChange::Put(keys::dir(dir, Kind::Entry, 0), entry.clone()),
        RowChange::Put(keys::dir(dir, Kind::Content, 1 << 61), entry.clone()),
        RowChange::Put(end.clone(), b"nonsense".to_vec()),
        RowChange::Put([end.clone(), vec![0]].concat(), entry),
        RowChange::Put(Vec::new(), Vec::new()),
        RowChange::Delete(keys::table(keys::Table::Numbers)),
        RowChange::DeleteRange(end.clone(), vec![0xff; 8]),
        RowChange::DeleteRange(end.clone(), keys::dir(dir, Kind::Slice, 1 << 61)),
        RowChange::DeleteRange(end, Vec::new()),
    ]
}

fn page(partition: u32, radix: u8, given_back: Option<u64>, rows: Vec<RowChange>) -> PeerMessage {
    let (partition, radix) = (PartitionIndex(partition), Radix(radix));
    let dir = DirRef { id: DirId([9; 16]), ino: Ino(77) };
    PeerMessage::Page { dir, partition, given_back, radix, number: 0, synced: false, rows }
}

#[test]
fn floors_that_cannot_be() {
    let mut c = cluster();
    for (below, but) in [(9, vec![3, 2]), (9, vec![3, 3]), (9, vec![9]), (99, (0..65).collect())] {
        let floor = Floor { below, but };
        let asked = PeerMessage::Prepare(Place::Home(ROOT), Prepare::Look(ROOT));
        refused(&mut c, HERE, Peer { floor: floor.clone(), ..peer(1, asked) }, &no());
        refused(&mut c, HERE, Peer { floor, ..peer(1, PeerMessage::Finish(None)) }, &[]);
    }
    works(&mut c);
}

#[test]
fn a_page_with_a_row_of_something_else_is_given_up() {
    let mut c = cluster();
    let given_up = [PeerMessage::PageDone(0)];
    for (number, row) in (0..).zip(bad_rows(DirId([9; 16]))) {
        refused(&mut c, HERE, peer(number, page(1, 1, None, vec![row])), &given_up);
    }
    for (partition, radix, given_back) in
        [(2, 1, None), (0, 25, None), (5, 255, None), (0, 0, Some(1))]
    {
        refused(&mut c, HERE, peer(50, page(partition, radix, given_back, Vec::new())), &given_up);
    }
    works(&mut c);
}

#[test]
fn a_page_of_a_hash_slot_with_a_row_of_something_else_is_given_up() {
    let mut c = cluster();
    let hash_slot = HashSlotNews { hash_slot: HashSlot(0x0909), version: 7, owner: HERE };
    let header = |partition, start| {
        let header = Header {
            partition: PartitionIndex(partition),
            radix: Radix(0),
            ino: Ino(77),
            inherit: Inherit::default(),
            entries: 0,
            subdirs: 0,
            change: 0,
            mtime: Timestamp::default(),
            generation: 0,
            spread: None,
        };
        RowChange::Put(keys::dir(DirId([9; 16]), Kind::Header, start), header.encode())
    };
    let content = keys::dir(DirId([9; 16]), Kind::Content, 0);
    let rows = [
        header(0, 5),
        header(1, 0),
        RowChange::Put(content.clone(), b"nonsense".to_vec()),
        RowChange::Put(vec![b'l', 9, 9], Vec::new()),
        RowChange::Put(keys::dir(DirId([8; 16]), Kind::Content, 0), Vec::new()),
        RowChange::Put(keys::session(SessionId(1)), Vec::new()),
        RowChange::DeleteRange(content.clone(), vec![0xff; 8]),
        RowChange::DeleteRange(content, Vec::new()),
    ];
    for (number, row) in (0..).zip(rows) {
        let message =
            PeerMessage::HashSlotPage { hash_slot, number: 0, synced: false, rows: vec![row] };
        refused(&mut c, HERE, peer(number, message), &[PeerMessage::PageDone(0)]);
    }
    works(&mut c);
}

#[test]
fn what_cannot_be_prepared_is_voted_down() {
    let mut c = cluster();
    let header = |partition: u32, radix: u8| {
        let header = Header {
            partition: PartitionIndex(partition),
            radix: Radix(radix),
            ino: Ino(77),
            inherit: Inherit::default(),
            entries: 0,
            subdirs: 0,
            change: 0,
            mtime: Timestamp::default(),
            generation: 0,
            spread: None,
        };
        header.encode()
    };
    let arrival = |header: Vec<u8>| Arrival {
        dir: DirRef { id: DirId([9; 16]), ino: Ino(77) },
        header,
        given_back: false,
        pages: 1,
        rows: Vec::new(),
        tally: Tally::default(),
        opens: Vec::new(),
        slots: Vec::new(),
        heard: 0,
    };
    let good = arrival(header(1, 1));
    let row = bad_rows(DirId([9; 16])).remove(0);
    let outcome = (keys::session(SessionId(1)), Vec::new());
    let place = Place::Order(good.dir, Order(1 << 61));
    let mut prepares = vec![
        arrival(b"nonsense".to_vec()),
        arrival(header(2, 1)),
        arrival(header(0, 200)),
        Arrival { given_back: true, ..arrival(header(0, 1)) },
        Arrival { rows: vec![row.clone()], ..good.clone() },
        Arrival { slots: vec![outcome.clone()], ..good },
    ]
    .into_iter()
    .map(Prepare::Arrive)
    .collect::<Vec<_>>();
    let hash_slot = HashSlotNews { hash_slot: HashSlot(0x0909), version: 7, owner: HERE };
    let take = HashSlotArrival {
        hash_slot,
        pages: 1,
        rows: Vec::new(),
        tally: Tally::default(),
        opens: Vec::new(),
        slots: Vec::new(),
        heard: 0,
    };
    prepares.push(Prepare::TakeHashSlot(HashSlotArrival { rows: vec![row], ..take.clone() }));
    prepares.push(Prepare::TakeHashSlot(HashSlotArrival { slots: vec![outcome], ..take }));
    // Only shard 0 lets shards join.
    prepares.push(Prepare::Join);
    for (number, prepare) in (0..).zip(prepares) {
        let message = PeerMessage::Prepare(place.clone(), prepare);
        refused(&mut c, HERE, peer(number, message), &no());
    }
    // Only shard 0 is asked for claims and versions. No shard speaks for another coordinator.
    let to = ShardIndex(2);
    let claims = [Prepare::Graph(Claim::Alone), Prepare::Invalidate { dirs: vec![], graph: None }];
    for (number, prepare) in (0..).zip(claims) {
        refused(&mut c, to, peer(number, PeerMessage::Prepare(Place::Shard(to), prepare)), &no());
    }
    let versions =
        PeerMessage::Versions { since: 0, version: 9, changed: Vec::new(), answers: None };
    let told = SessionsTold::All(SessionTable { position: 9, ..SessionTable::default() });
    let sessions = PeerMessage::Sessions { told, last: 9, known: 9, freed: 9, answers: None };
    for message in [
        versions,
        PeerMessage::VersionsKnown(u64::MAX),
        PeerMessage::AskVersions(Epoch(1)),
        sessions,
    ] {
        refused(&mut c, to, peer(9, message), &[]);
    }
    let of_another = TxnId { shard: HERE, number: 1 << 40 };
    let prepare = Prepare::Home(ROOT);
    let message = PeerMessage::Prepare(Place::Home(ROOT), prepare);
    refused(&mut c, to, Peer { txn: of_another, ..peer(9, message) }, &no());
    works(&mut c);
}

/// An entry of a directory that does not exist.
fn put() -> EntryRows {
    let access =
        Access { dir: DirRef { id: DirId([9; 16]), ino: Ino(77) }, mode: 0, uid: 0, gid: 0 };
    EntryRows { value: EntryValue::Dir(access), inode: InodeRows::default() }
}

#[test]
fn a_decision_for_what_is_not_prepared_or_not_there_changes_nothing() {
    let mut c = cluster();
    let home = c.home(ROOT);
    c.create(ROOT, "there").unwrap();
    let [there, absent] = ["there", "absent"].map(|name| c.name(name));
    let at = Timestamp::default();
    let (dir, partition) = (ROOT, PartitionIndex(0));
    let remove = |name: &pando_types::Name| Change::RemoveEntry {
        dir,
        name: name.clone(),
        destroy: true,
        at,
    };
    let inode = match c.lookup(ROOT, "there") {
        Ok(pando_types::reply::Found::File(attr)) => {
            pando_types::peer::Inode { attr, is_inline: true, has_xattrs: false }
        }
        other => panic!("{other:?}"),
    };
    // For a step that is not known.
    refused(&mut c, home, peer(0, PeerMessage::Finish(Some(vec![remove(&there)]))), &[]);
    // For a step that has locked something else, or finds nothing.
    let by = None;
    let prepare = Prepare::Name { dir, name: absent.clone(), credentials: by };
    let order = Order(c.secrets.order(b"absent").0);
    let voted =
        hear(&mut c, home, peer(1, PeerMessage::Prepare(Place::Order(dir, order), prepare)));
    assert!(matches!(voted[..], [PeerMessage::Voted(Vote::Yes(Seen::Name { entry: None, .. }))]));
    let access = Access { dir: ROOT, mode: 0, uid: 0, gid: 0 };
    let other = DirRef { ino: Ino(5), ..ROOT };
    for change in [
        remove(&there),
        remove(&absent),
        Change::SetAccess { dir, name: absent.clone(), access },
        Change::PutEntry { dir, name: there.clone(), entry: put(), destroy: true, at },
        Change::PutEntry { dir: other, name: absent.clone(), entry: put(), destroy: true, at },
        Change::SetParent { dir, parent: dir, name: there.clone(), at },
        Change::SetBase { dir, base: inode.attr.clone(), generation: 9 },
        Change::SetHeader { dir, partition, inherit: Inherit::default(), generation: 9 },
        Change::DropHome { dir, tombstone: false },
        Change::DropPartition { dir, partition },
        Change::PutLink { inode, rows: InodeRows::default(), names: Vec::new() },
        Change::AddName { ino: Ino(77), dir, name: there.clone(), at },
        Change::DropName { ino: Ino(77), dir, name: there.clone(), at },
        Change::Own { dir, partition },
        Change::OwnHashSlot(HashSlotNews { hash_slot: HashSlot(9), version: 9, owner: HERE }),
        Change::Join(SessionTable::default()),
    ] {
        refused(&mut c, home, peer(1, PeerMessage::Finish(Some(vec![change]))), &[]);
    }
    // The step's lock is released as always.
    hear(&mut c, home, peer(1, PeerMessage::Finish(None)));
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
    assert!(c.lookup(ROOT, "there").is_ok());
    works(&mut c);
}

#[test]
fn a_vote_that_tells_something_else_is_a_no() {
    let mut c = cluster();
    let home = c.home(ROOT);
    for seen in [
        Seen::Arrived(Tally::default()),
        Seen::Version(9),
        Seen::Name { entry: None, inherit: Inherit::default() },
        Seen::Partition(Default::default(), 0),
    ] {
        // Only a directory's home tells of its id.
        let (number, op) = (bad(&c, home), pando_types::op::Op::Mkdir(ROOT, c.name("x"), 0o755));
        let tag = c.send(home, op);
        let asked =
            |peer: &Peer| matches!(&peer.message, PeerMessage::Prepare(_, Prepare::NewHome(_)));
        let mut steps = 0;
        while !c.messages().any(|(_, peer)| asked(peer)) && steps < 100 && c.answer(tag).is_none() {
            c.step();
            steps += 1;
        }
        let asked = c.take(|_, _| true);
        let Some((to, ask)) = asked.iter().find(|(_, peer)| asked_for_home(peer)) else {
            // Its home is this shard: there is no message.
            c.settle();
            assert!(c.rmdir(ROOT, "x").is_ok());
            continue;
        };
        let vote = Peer {
            from: *to,
            floor: Floor::default(),
            message: PeerMessage::Voted(Vote::Yes(seen)),
            ..(**ask).clone()
        };
        c.deliver([(home, vote)]);
        assert_eq!(bad(&c, home), number + 1);
        assert_eq!(c.answer(tag), Some(Err(pando_types::reply::Refusal::Errno(Errno::EIO))));
        c.settle();
    }
    works(&mut c);
}

fn asked_for_home(peer: &Peer) -> bool {
    matches!(&peer.message, PeerMessage::Prepare(_, Prepare::NewHome(_)))
}
