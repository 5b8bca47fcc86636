//! Frames encoded and decoded: in pieces, damaged, hostile.

use pando_types::op::{Head, NewNode, Op, Request, RequestId};
use pando_types::peer::{Behalf, Floor, Peer, PeerMessage, Prepare};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{
    Credentials, DirId, DirRef, Epoch, Errno, FileKind, Ino, Lsn, Name, News, SessionId,
    ShardIndex, Trail, TxnId,
};
use pando_wire::{Decoder, FRAME_MAX, FrameError, HEADER_LEN, Message, Stream, VERSION, encode};
use proptest::prelude::*;

fn names() -> impl Strategy<Value = Name> {
    proptest::collection::vec(1_u8..=255, 1..40)
        .prop_filter_map("not a name", |bytes| Name::new(&bytes).ok())
}

fn dirs() -> impl Strategy<Value = DirRef> {
    (any::<[u8; 16]>(), any::<u64>()).prop_map(|(id, ino)| DirRef { id: DirId(id), ino: Ino(ino) })
}

fn ids() -> impl Strategy<Value = RequestId> {
    (any::<u64>(), any::<u16>(), any::<u64>()).prop_map(|(s, slot, sequence)| RequestId {
        session: SessionId(s),
        slot,
        sequence,
    })
}

fn messages() -> impl Strategy<Value = Message> {
    let request =
        (ids(), dirs(), names(), any::<u32>(), proptest::collection::vec(any::<u32>(), 0..5))
            .prop_map(|(id, dir, name, uid, groups)| {
                let node = NewNode {
                    kind: FileKind::Symlink,
                    mode: 0o777,
                    rdev: 0,
                    symlink: name.as_bytes().to_vec(),
                };
                Message::Request(Request {
                    head: Head {
                        id,
                        trace: 7,
                        heard: 1,
                        clock: 99,
                        version: 3,
                        borrows: uid % 3 == 0,
                        under: None,
                        entry: None,
                    },
                    credentials: Credentials::new(uid, uid, groups),
                    op: Op::Create { dir, name, node, exclusive: true, open: false },
                    trail: (uid % 2 == 0).then(|| Trail {
                        version: u64::from(uid),
                        dirs: vec![dir.ino, Ino(uid.into())],
                    }),
                })
            });
    let reply = (ids(), proptest::collection::vec(any::<u8>(), 0..200), any::<bool>()).prop_map(
        |(id, bytes, is_ok)| {
            let refused = Err(Refusal::Errno(Errno::ENOENT));
            Message::Reply(Reply {
                id,
                trace: 7,
                shard: ShardIndex(3),
                epoch: Epoch(4),
                durable: Lsn(5),
                seen: Lsn(6),
                version: 0,
                clock: 8,
                result: if is_ok { Ok(Body::Bytes(bytes)) } else { refused },
                news: is_ok.then(|| News {
                    since: 1,
                    version: 3,
                    changed: vec![(3, Ino(id.sequence))],
                }),
                amendment: None,
            })
        },
    );
    let peer = (dirs(), any::<u64>(), any::<u16>()).prop_map(|(dir, number, step)| {
        let place = pando_types::op::Place::Home(dir);
        Message::Peer(Peer {
            from: ShardIndex(1),
            trace: number,
            clock: 1,
            behalf: Behalf::default(),
            txn: TxnId { shard: ShardIndex(1), number },
            step,
            floor: Floor { below: number, but: vec![number / 2] },
            message: PeerMessage::Prepare(place, Prepare::Home(dir)),
        })
    });
    prop_oneof![request, reply, peer]
}

fn framed(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        encode(&mut bytes, Stream(n as u64), message);
    }
    bytes
}

proptest! {
    #[test]
    fn messages_return_in_order_however_the_bytes_are_cut(
        messages in proptest::collection::vec(messages(), 1..8),
        cuts in proptest::collection::vec(1_usize..64, 1..40),
    ) {
        let bytes = framed(&messages);
        let mut decoder = Decoder::new();
        let mut found = Vec::new();
        let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            decoder.feed(now);
            rest = later;
            while let Some((stream, message)) = decoder.message().unwrap() {
                prop_assert_eq!(stream, Stream(found.len() as u64));
                found.push(message);
            }
        }
        prop_assert_eq!(found, messages);
        prop_assert_eq!(decoder.pending(), 0);
    }

    #[test]
    fn a_flipped_bit_is_never_another_message(message in messages(), at in any::<usize>(), bit in 0_u8..8) {
        let mut bytes = framed(std::slice::from_ref(&message));
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        match decoder.message() {
            Err(_) | Ok(None) => {}
            Ok(Some((_, found))) => prop_assert_eq!(found, message),
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        while let Ok(Some(_)) = decoder.message() {}
        let again = decoder.message();
        prop_assert!(!matches!(again, Ok(Some(_))));
    }
}

fn frame_of(length: u32, version: u8, kind: u8, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut rest = vec![version, kind];
    rest.extend_from_slice(&flags.to_le_bytes());
    rest.extend_from_slice(&[0; 8]);
    rest.extend_from_slice(body);
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(&crc32c::crc32c(&rest).to_le_bytes());
    frame.extend_from_slice(&rest);
    frame
}

#[test]
fn each_fault_has_its_name_and_stays() {
    let bare = HEADER_LEN as u32 - 4;
    let cases = [
        (frame_of(FRAME_MAX + 1, VERSION, 1, 0, &[]), FrameError::Length(FRAME_MAX + 1, FRAME_MAX)),
        (frame_of(bare - 1, VERSION, 1, 0, &[]), FrameError::Length(bare - 1, FRAME_MAX)),
        (frame_of(bare, VERSION + 1, 1, 0, &[]), FrameError::Version(VERSION + 1)),
        (frame_of(bare, VERSION, 200, 0, &[]), FrameError::Kind(200)),
        (frame_of(bare, VERSION, 1, 5, &[]), FrameError::Flags(5)),
        (frame_of(bare + 1, VERSION, 2, 0, &[7]), FrameError::Body(2)),
    ];
    for (bytes, expected) in cases {
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        assert_eq!(decoder.message(), Err(expected));
        decoder.feed(&framed(&[]));
        assert_eq!(decoder.message(), Err(expected), "a failed decoder stays so");
    }
}

#[test]
fn what_a_shard_sends_unasked_is_skipped() {
    let mut bytes = frame_of(HEADER_LEN as u32 - 4, VERSION, 17, 0, &[]);
    let message = Message::Peer(Peer {
        from: ShardIndex(1),
        trace: 0,
        clock: 1,
        behalf: Behalf::default(),
        txn: TxnId::default(),
        step: 0,
        floor: Floor::default(),
        message: PeerMessage::Finished,
    });
    encode(&mut bytes, Stream(5), &message);
    let mut decoder = Decoder::new();
    decoder.feed(&bytes);
    assert_eq!(decoder.message(), Ok(Some((Stream(5), message))));
}
