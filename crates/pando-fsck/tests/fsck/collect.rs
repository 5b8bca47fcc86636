//! Objects are collected while files move. Objects that no file names are deleted, and no others.

use std::collections::BTreeSet;

use pando_core::ClientTag;
use pando_core::keys::{self, Kind};
use pando_core::record::{Header, Record};
use pando_fsck::{Collected, Objects, Page, Rows, Stored, Unneeded, Watched, collect};
use pando_types::op::{FileAt, FileRef, ObjectId, Op, Payload, Piece};
use pando_types::reply::Slice;
use pando_types::watch::{Settled, Watching};
use pando_types::{DirRef, FileKind, Ino, KeyId, SessionId, ShardIndex};

use crate::support::{Bucket, Cluster, SHARDS, TRAILER, name, object_range};

const FILES: usize = 12;
/// Number of objects that no file names, of the session that is over.
const LOST: u128 = 5;

/// A volume in which files move at each look.
struct Busy {
    c: Cluster,
    random: fastrand::Rng,
    /// The place of each file: directory and name.
    files: Vec<(DirRef, String)>,
    inos: Vec<Ino>,
    /// The shard that the hash slot of each ino was last handed over to.
    links: Vec<ShardIndex>,
    under_way: Option<(usize, DirRef, String)>,
    renames: u64,
    pauses: u64,
    /// This shard restarts when it is asked to settle for this many-th time.
    restart: Option<(ShardIndex, u32)>,
}

impl Busy {
    /// Makes the volume. Each file has an object of a session that is over. The bucket has some
    /// more objects of that session.
    fn new(seed: u64) -> (Self, Bucket) {
        let mut c = Cluster::busy();
        let dirs = ["a", "b", "c", "big", "deep", "empty"].map(|dir| c.dir(dir));
        let old = c.session;
        let object = |number: u128| ObjectId((u128::from(old.0) << 64) + 1000 + number);
        let (mut files, mut inos) = (Vec::new(), Vec::new());
        for n in 0..FILES {
            let (dir, file) = (dirs[n % dirs.len()], format!("moved-{n}"));
            let ino = c.create(dir, &file, FileKind::Regular, "").ino;
            let range = object_range(object(n as u128), 100);
            let pieces = vec![Piece { offset: 0, payload: Payload::Object(range) }];
            let at = FileRef { ino, at: FileAt::Name(dir, name(&file)) };
            c.done(Op::WriteData { file: at, base: None, pieces, mtime: None, kill: None });
            files.push((dir, file));
            inos.push(ino);
        }
        c.end_session(old);
        c.begin_session();
        c.settle();
        let mut bucket = std::mem::take(&mut c.bucket);
        let made = (0..FILES as u128 + LOST).map(|number| (object(number), 100 + TRAILER));
        bucket.0.extend(made);
        // One object belongs to a living session, which may be about to name it.
        bucket.0.insert(ObjectId((u128::from(c.session.0) << 64) + 1), 7);
        let under_way = None;
        let links = inos.iter().map(|ino| c.volume.map.link(*ino)).collect();
        let random = fastrand::Rng::with_seed(seed);
        let (renames, pauses, restart) = (0, 0, None);
        (Self { c, random, files, inos, links, under_way, renames, pauses, restart }, bucket)
    }

    /// Makes some renames begin, and delivers a few of their messages.
    fn stir(&mut self) {
        for _ in 0..self.random.usize(..3) {
            self.hear();
            if self.under_way.is_none() {
                self.ask();
            }
            for _ in 0..self.random.usize(..5) {
                self.c.deliver();
            }
        }
        if self.random.usize(..40) == 0 {
            self.c.tick();
        }
    }

    fn hear(&mut self) {
        let Some(answer) = self.c.answer(ClientTag(1, KeyId::OWNER)) else { return };
        let Some((n, dir, new)) = self.under_way.take() else { return };
        if answer.is_ok() {
            self.files[n] = (dir, new);
            self.renames += 1;
        }
    }

    fn ask(&mut self) {
        let n = self.random.usize(..FILES);
        let dirs = ["a", "b", "c", "big", "deep", "empty"].map(|dir| self.c.dir(dir));
        let to = dirs[self.random.usize(..dirs.len())];
        let new = format!("{n}-{}", self.random.u32(..1 << 24));
        let (from, old) = self.files[n].clone();
        let order = self.c.volume.secrets.order(old.as_bytes());
        // No shard holds the order while its partition is moving.
        let Some(shard) = self.holder(from, order.0) else { return };
        let file = FileRef { ino: self.inos[n], at: FileAt::Name(from, name(&old)) };
        match self.random.usize(..10) {
            // This moves the inode and all of its slices to the link shard.
            0 => self.c.send(shard, Op::Link(file, to, name(&new))),
            // This hands link inodes on.
            1 => {
                let (hash_slot, next) =
                    (self.inos[n].hash_slot(), ShardIndex(self.random.u16(..4)));
                self.c.send(self.links[n], Op::HandOver(self.links[n], hash_slot, next));
                self.links[n] = next;
                return;
            }
            _ => self.c.send(shard, Cluster::rename_op(from, &old, to, &new)),
        }
        self.under_way = Some((n, to, new));
    }

    fn holder(&self, dir: DirRef, order: u64) -> Option<ShardIndex> {
        let prefix = &keys::dir(dir.id, Kind::Header, 0)[..18];
        Cluster::all_shards().find(|shard| {
            let mut headers = self.c.rows(*shard, prefix).into_iter();
            headers.any(|(_, value)| Header::decode(&value).unwrap().range().contains(&order))
        })
    }

    fn named(&self) -> BTreeSet<ObjectId> {
        let rows = Cluster::all_shards().flat_map(|shard| self.c.rows(shard, b""));
        let slices = rows.filter(|(key, _)| keys::is_slice(key));
        slices.map(|(_, value)| Slice::decode(&value).unwrap().range.object).collect()
    }
}

impl Rows for Busy {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        self.stir();
        // Pages are small, so that much happens between them.
        self.c.stores.page(shard, from, bytes.min(2000))
    }
}

impl Watched for Busy {
    fn watch(&mut self, shard: ShardIndex, id: u64) -> Result<Watching, String> {
        self.stir();
        Ok(self.c.watch(shard, id))
    }

    fn settle(&mut self, shard: ShardIndex, id: u64, first: ObjectId) -> Result<Settled, String> {
        self.stir();
        if let Some((unlucky, left)) = &mut self.restart
            && *unlucky == shard
        {
            *left -= 1;
            if *left == 0 {
                self.restart = None;
                self.c.stop();
                self.c.start();
                return Ok(self.c.settle_watch(shard, id, first));
            }
        }
        if self.random.usize(..4) == 0 {
            // A second watch request, as if it came late.
            self.c.watch(shard, id);
        }
        Ok(self.c.settle_watch(shard, id, first))
    }

    fn sync(&mut self, _: ShardIndex) -> Result<(), String> {
        self.stir();
        Ok(())
    }

    fn pause(&mut self) -> Result<(), String> {
        self.pauses += 1;
        assert!(self.pauses < 10_000, "it never settles");
        self.stir();
        Ok(())
    }
}

#[test]
fn what_moves_while_it_is_looked_for_is_kept() {
    let (mut renames, mut pauses) = (0, 0);
    for seed in 0..200 {
        let (mut busy, mut bucket) = Busy::new(seed);
        let before: BTreeSet<_> = bucket.0.keys().copied().collect();
        let mut id = 0;
        let ids = || {
            id += 1;
            id
        };
        let collected = collect(&mut busy, SHARDS, &mut bucket, ids, Unneeded::Delete).unwrap();
        (renames, pauses) = (renames + busy.renames, pauses + busy.pauses);
        busy.c.settle();
        let needed = busy.named();
        let left: BTreeSet<_> = bucket.0.keys().copied().collect();
        assert!(needed.is_subset(&left), "seed {seed}: {:x?}", needed.difference(&left));
        let gone = before.difference(&left).count() as u128;
        assert_eq!(gone, LOST, "seed {seed}");
        let bytes = LOST as u64 * (100 + TRAILER);
        let expected = Collected {
            objects: before.len() as u64,
            of_the_living: 1,
            collected: LOST as u64,
            bytes,
        };
        assert_eq!(collected, expected);
    }
    assert!(renames > 1000 && pauses > 0, "{renames} renames, {pauses} pauses");
}

#[test]
fn nothing_is_deleted_if_a_shard_began_anew_meanwhile_or_the_volume_grows() {
    for (unlucky, nth) in (0..SHARDS).flat_map(|shard| [(shard, 1), (shard, 2)]) {
        let (mut busy, mut bucket) = Busy::new(7);
        busy.restart = Some((ShardIndex(unlucky), nth));
        let before = bucket.0.len();
        let error = collect(&mut busy, SHARDS, &mut bucket, || 1, Unneeded::Delete).unwrap_err();
        assert!(error.contains("restarted meanwhile"), "{error}");
        assert_eq!(bucket.0.len(), before);
    }
    let (mut busy, mut bucket) = Busy::new(7);
    let error = collect(&mut busy, SHARDS - 1, &mut bucket, || 1, Unneeded::Delete).unwrap_err();
    assert!(error.contains("being added"), "{error}");
}

#[test]
fn a_trial_counts_and_deletes_nothing_and_sessions_that_live_are_left_alone() {
    let (mut busy, mut bucket) = Busy::new(1);
    let before = bucket.0.clone();
    let collected = collect(&mut busy, SHARDS, &mut bucket, || 1, Unneeded::Count).unwrap();
    assert_eq!((collected.collected, bucket.0), (LOST as u64, before));
    let session = SessionId(busy.c.session.0);
    busy.c.settle();
    busy.c.end_session(session);
    busy.c.settle();
    let mut bucket = Bucket([(ObjectId(u128::from(session.0) << 64), 7)].into());
    let collected = collect(&mut busy, SHARDS, &mut bucket, || 2, Unneeded::Delete).unwrap();
    assert_eq!((collected.collected, bucket.0.len()), (1, 0));
}

/// An object store that lists objects twice, as a folder may that changes while it is read.
struct Twice(Bucket);

impl Objects for Twice {
    fn list(&mut self, after: Option<ObjectId>, most: usize) -> Result<Vec<Stored>, String> {
        let page = self.0.list(after, most)?;
        Ok(page.iter().chain(&page).copied().collect())
    }

    fn size(&mut self, id: ObjectId) -> Result<Option<u64>, String> {
        self.0.size(id)
    }

    fn size_for(&self, content: u64) -> u64 {
        self.0.size_for(content)
    }

    fn delete(&mut self, id: ObjectId) -> Result<(), String> {
        self.0.delete(id)
    }
}

#[test]
fn an_object_that_is_listed_twice_is_needed_once_and_for_all() {
    let (mut busy, bucket) = Busy::new(3);
    let mut bucket = Twice(bucket);
    let collected = collect(&mut busy, SHARDS, &mut bucket, || 1, Unneeded::Delete).unwrap();
    assert_eq!(u128::from(collected.collected), LOST);
    busy.c.settle();
    let left = bucket.0.0.keys().copied().collect();
    assert!(busy.named().is_subset(&left));
}
