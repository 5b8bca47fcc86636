//! Measures the cost of each kind of request alone.

use std::time::Instant;

use pando_bench::Watch;
use pando_core::contract::{GroupMeta, Write};
use pando_server::store::{Priority, Store, StoreOptions};
use pando_types::op::{Op, Request};
use pando_types::reply::Reply;
use pando_types::{Ino, Name, ShardIndex};
use pando_wire::{Decoder, Message, Stream, encode_reply, encode_request};
use serde::Serialize;

use super::requests::{Shard, create, file, ino, unexpected};
use crate::output::failure::Failure;
use crate::volume::make;

/// Sizes in bytes of keys and values in the insert group of a create. They are an entry, its
/// partition's header, an open, and the outcome.
const GROUP: [(usize, usize); 4] = [(26, 80), (26, 40), (20, 16), (12, 90)];

/// Kinds of requests to a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    LookupDir,
    LookupAbsent,
    Create,
    Lookup,
    GetAttr,
    Release,
    Unlink,
    /// The smallest request. [hops](super::hop) are measured with it.
    StatFs,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::StatFs,
        Self::LookupDir,
        Self::LookupAbsent,
        Self::Create,
        Self::Lookup,
        Self::GetAttr,
        Self::Release,
        Self::Unlink,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::LookupDir => "lookup of a directory",
            Self::LookupAbsent => "lookup, absent",
            Self::Create => "create",
            Self::Lookup => "lookup",
            Self::GetAttr => "getattr",
            Self::Release => "release",
            Self::Unlink => "unlink",
            Self::StatFs => "statfs",
        }
    }

    const fn changes(self) -> bool {
        matches!(self, Self::Create | Self::Release | Self::Unlink)
    }
}

/// Nanoseconds that a request of one kind takes.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    pub request: String,
    /// To encode and decode request and reply.
    pub codec: f64,
    /// In the shard, without the log write.
    pub shard: f64,
    pub log: f64,
}

/// Costs of all kinds.
pub struct Costs(Vec<(Kind, Cost)>);

impl Costs {
    pub fn codec(&self, kind: Kind) -> f64 {
        self.of(kind).map_or(f64::NAN, |cost| cost.codec)
    }

    pub fn shard(&self, kind: Kind) -> f64 {
        self.of(kind).map_or(f64::NAN, |cost| cost.shard)
    }

    pub fn log(&self, kind: Kind) -> f64 {
        self.of(kind).map_or(f64::NAN, |cost| cost.log)
    }

    pub fn list(&self) -> Vec<Cost> {
        self.0.iter().map(|(_, cost)| cost.clone()).collect()
    }

    fn of(&self, kind: Kind) -> Option<&Cost> {
        self.0.iter().find(|(found, _)| *found == kind).map(|(_, cost)| cost)
    }
}

/// Measures all kinds on `files` files. Each kind visits the files in an order unrelated to that of
/// the kind before.
pub fn costs(files: u64, watch: &dyn Watch) -> Result<Costs, Failure> {
    let log_write = log_write(files)?;
    let mut shard = Shard::new()?;
    let names: Vec<Name> = (0..files)
        .map(|number| Name::new(format!("file.{number:08}").as_bytes()))
        .collect::<Result<_, _>>()
        .map_err(|errno| unexpected(&errno))?;
    let mut inos = vec![Ino(0); names.len()];
    let mut costs = Vec::new();
    for kind in Kind::ALL {
        if watch.is_interrupted() {
            return Err(Failure::plain("interrupted"));
        }
        let (whole, request, reply) = run(&mut shard, kind, &names, &mut inos)?;
        let log = if kind.changes() { log_write } else { 0.0 };
        let codec = codec(files, &request, &reply)?;
        let request = kind.name().to_owned();
        costs.push((kind, Cost { request, codec, shard: (whole - log).max(0.0), log }));
    }
    Ok(Costs(costs))
}

/// Mean nanoseconds of a request, with the last request and its reply.
fn run(
    shard: &mut Shard,
    kind: Kind,
    names: &[Name],
    inos: &mut [Ino],
) -> Result<(f64, Request, Reply), Failure> {
    let dir = shard.dir;
    let mut last = None;
    // A stride that is coprime to the number of files. To a hash table, the order is as good as
    // random.
    let count = names.len();
    let stride = (count / 3 * 2 + 1..).find(|stride| gcd(*stride, count) == 1).unwrap_or(1);
    let requests: Vec<(usize, Request)> = (0..count)
        .map(|turn| {
            let at = turn * stride % count;
            let (name, ino) = (&names[at], inos[at]);
            let op = match kind {
                Kind::LookupDir => Op::Lookup(pando_types::DirRef::ROOT, shard.dir_name.clone()),
                Kind::LookupAbsent | Kind::Lookup => Op::Lookup(dir, name.clone()),
                Kind::Create => create(dir, name),
                Kind::GetAttr => Op::GetAttr(file(dir, name, ino)),
                Kind::Release => Op::Release(file(dir, name, ino)),
                Kind::Unlink => Op::Unlink(dir, name.clone()),
                Kind::StatFs => Op::StatFs(ShardIndex(0)),
            };
            (at, shard.request(op))
        })
        .collect();
    let kept = requests.last().map(|(_, request)| request.clone());
    let begun = Instant::now();
    for (at, request) in requests {
        let reply = shard.call(request)?;
        match (kind, &reply.result) {
            (Kind::Create, _) => inos[at] = ino(&reply)?,
            (Kind::LookupAbsent, Err(_)) | (_, Ok(_)) => {}
            (_, other) => return Err(unexpected(other)),
        }
        last = Some(reply);
    }
    let nanos = begun.elapsed().as_nanos() as f64 / count.max(1) as f64;
    let (Some(request), Some(reply)) = (kept, last) else {
        return Err(Failure::plain("--files must be above 0"));
    };
    Ok((nanos, request, reply))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Nanoseconds to encode and decode both a request and its reply.
fn codec(times: u64, request: &Request, reply: &Reply) -> Result<f64, Failure> {
    let (mut bytes, mut decoder) = (Vec::new(), Decoder::new());
    let begun = Instant::now();
    for turn in 0..times {
        for is_reply in [false, true] {
            bytes.clear();
            if is_reply {
                encode_reply(&mut bytes, Stream(turn), reply);
            } else {
                encode_request(&mut bytes, Stream(turn), request);
            }
            decoder.feed(&bytes);
            match decoder.message() {
                Ok(Some((_, Message::Request(_) | Message::Reply(_)))) => {}
                other => return Err(unexpected(&other)),
            }
        }
    }
    Ok(begun.elapsed().as_nanos() as f64 / times.max(1) as f64)
}

/// Nanoseconds to write one insert group to the log, without a sync.
fn log_write(groups: u64) -> Result<f64, Failure> {
    let folder = make::temporary("pando-bench-")?;
    let failed = |error: pando_server::store::StoreError| Failure::plain(error);
    let (mut store, _) = Store::open(folder.path(), 1, &StoreOptions::default()).map_err(failed)?;
    let group: Vec<Write> = GROUP
        .iter()
        .enumerate()
        .map(|(at, (key, value))| Write::Put(vec![at as u8; *key], vec![7; *value]))
        .collect();
    let mut nanos = 0;
    for _ in 0..groups {
        if store.reserve(8 << 10, Priority::Normal) != pando_server::store::Room::Enough {
            return Err(Failure::plain(format!("no room in {}", folder.path().display())));
        }
        store.apply(&group, &GroupMeta::default());
        let begun = Instant::now();
        store.write().map_err(failed)?;
        nanos += begun.elapsed().as_nanos();
    }
    Ok(nanos as f64 / groups.max(1) as f64)
}
