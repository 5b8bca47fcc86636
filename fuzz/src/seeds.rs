//! Inputs with which fuzzing begins: what an honest side sends.

use std::path::Path;
use std::{fs, io};

use pando_core::record::Record;
use pando_keys::{Authority, KeyRole, Squash, Wanted};
use pando_types::peer::RowChange;
use pando_types::{DirRef, codec};
use pando_wire::{Hello, Message, Role, Stream, encode};

use crate::support::Cluster;
use crate::{TARGETS, net, records, samples};

/// Longest sample, bytes. Longer ones are left out: fuzzing is for short inputs.
const SAMPLE_MAX: usize = 2_000;
/// Number of messages in one input.
const TOGETHER: usize = 8;
/// Number of inputs for each type of record.
const OF_A_TYPE: usize = 2;

/// Writes the inputs into the folder `corpus` of this package. Other files there stay.
pub fn write() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in TARGETS {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        for (number, input) in of(target).into_iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), input)?;
        }
    }
    Ok(())
}

fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "frames" => frames(),
        "records" => rows(),
        "peers" => peers(),
        "hello" => hellos(),
        "tls" => tls(),
        "keys" => keys(),
        "fuse" => fuse(),
        _ => shard(),
    }
}

fn framed(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, Stream(7), message);
    bytes
}

fn frames() -> Vec<Vec<u8>> {
    let frames: Vec<_> = samples::all().iter().map(framed).collect();
    let short: Vec<_> = frames.into_iter().filter(|frame| frame.len() < SAMPLE_MAX).collect();
    short.chunks(TOGETHER).map(|frames| [vec![0x20], frames.concat()].concat()).collect()
}

/// A part of an input: its kind, its length, its bytes.
fn part(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let [low, high] = (bytes.len() as u16).to_le_bytes();
    [&[kind, low, high], bytes].concat()
}

fn peers() -> Vec<Vec<u8>> {
    let mut said: Vec<_> = samples::all()
        .into_iter()
        .filter_map(|message| match message {
            Message::Peer(peer) => Some(peer),
            _ => None,
        })
        .collect();
    // Messages that shards have sent, and rows that they hold.
    let mut c = busy();
    let rows: Vec<_> =
        c.rows().into_iter().map(|((_, key), row)| RowChange::Put(key, row)).collect();
    for peer in &mut said {
        if let pando_types::peer::PeerMessage::Page { rows: page, .. } = &mut peer.message {
            *page = rows.iter().take(4).cloned().collect();
        }
    }
    said.extend(c.take_sent().into_iter().map(|(.., peer)| peer).take(4 * TOGETHER));
    let parts: Vec<_> = said
        .into_iter()
        .map(|mut peer| {
            peer.from.0 %= 3;
            let mut body = Vec::new();
            codec::encode_body(&mut body, &peer);
            part((peer.from.0 as u8 + 1) % 3, &body)
        })
        .collect();
    parts.chunks(2).map(<[_]>::concat).filter(|input| input.len() < SAMPLE_MAX).collect()
}

/// Shards that have records of many types.
fn busy() -> Cluster {
    let mut c = Cluster::new(3, 8);
    let _ = c.take_sent();
    let root = DirRef::ROOT;
    let dir = c.mkdir(root, "dir").expect("made");
    let attr = c.create(root, "linked").expect("created");
    c.link((root, "linked", attr), dir, "other").expect("linked");
    for number in 0..20 {
        c.create(dir, &format!("file{number}")).expect("created");
    }
    c
}

fn rows() -> Vec<Vec<u8>> {
    let c = busy();
    let mut inputs = Vec::new();
    for (kind, is) in records::TYPES.iter().enumerate() {
        let values = c.rows().into_values().filter(|value| is(value)).take(OF_A_TYPE);
        inputs.extend(values.map(|value| [vec![kind as u8], value].concat()));
    }
    // Some records last no longer than a transaction. A floor is one, and gets an input here.
    inputs.push([vec![15], pando_core::record::Floor::below(7).encode()].concat());
    inputs
}

fn hellos() -> Vec<Vec<u8>> {
    let shard = pando_types::ShardIndex(1);
    let roles = [Role::Tool, Role::Client(shard), Role::Peer(shard, Vec::new())];
    let hellos = roles.into_iter().map(|role| Hello::new(net::VOLUME, role, vec![[3; 16]]));
    hellos.map(|hello| [vec![0], framed(&hello.into())].concat()).collect()
}

fn tls() -> Vec<Vec<u8>> {
    let message = part(23, b"a message");
    let update = part(22, &[24, 0, 0, 1, 1]);
    let plain = part(0x80, &[23, 3, 3, 0, 20, 1, 2, 3]);
    vec![
        [&message[..], &message, &part(21, &[1, 0])].concat(),
        [&update[..], &message, &update].concat(),
        [&message[..], &plain, &part(0x80, &[0; 17])].concat(),
        part(22, &[4, 0, 0, 1, 0]),
        part(21, &[2, 44]),
    ]
}

/// The volume of these keys does not exist, so the keys open nothing.
fn keys() -> Vec<Vec<u8>> {
    let authority = Authority::create(net::VOLUME).expect("a key can be made");
    let next = authority.succeed().expect("a key can be made");
    let squash = Some(Squash::All { uid: 5, gid: 6 });
    let mut inputs = Vec::new();
    for (authority, role, squash) in
        [(authority, KeyRole::Client, squash), (next, KeyRole::Server, None)]
    {
        let read_only = squash.is_some();
        let addresses = vec!["10.0.0.1:7400".to_owned()];
        let wanted = Wanted { role, name: "ada".to_owned(), read_only, squash, days: 9, addresses };
        let bundle = authority.issue(&wanted).expect("issued");
        let text = bundle.to_pem();
        let uri = text.lines().next().and_then(|line| line.strip_prefix("# pando: "));
        inputs.push([&[0], uri.unwrap_or_default().as_bytes()].concat());
        inputs.push([&[1], text.as_bytes()].concat());
        inputs.push([&[2], &bundle.certificate[..]].concat());
    }
    inputs
}

/// One request of each kind, with more bytes than any kind needs.
fn fuse() -> Vec<Vec<u8>> {
    let body: Vec<u8> = [vec![0; 16], b"a\0name\0".to_vec(), vec![0; 80]].concat();
    let request = |opcode: u32| {
        let header = crate::protocol::abi::InHeader { opcode, nodeid: 1, ..Default::default() };
        [&[0], zerocopy::IntoBytes::as_bytes(&header), &body].concat()
    };
    (1..=53).map(request).collect()
}

fn shard() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let lengths = (1..=12).map(|number| number * 40);
    lengths.map(|length| (0..length).map(|_| random.u8(..)).collect()).collect()
}
