//! Checks the structure with `pando-fsck`, on shards at rest and on what a crash of all shards
//! would leave.
//!
//! 1. At the end, no operation runs and no session is left. Then nothing is wrong, and nothing is
//!    left over.
//! 2. If everything dies in the middle, nothing is wrong except what transactions will put right.
//! 3. While operations run and shards die and come back, no fault is reported.

use std::cell::RefCell;

use babu::MemDisk;
use pando_core::Rows as _;
use pando_fsck::{
    Code, Mode, Objects, Page, Pending, Report, Rows, Unwatched, Volume, Watch, check,
};
use pando_server::store::Store;
use pando_types::ShardIndex;

use crate::machines::bucket::Bucket;
use crate::machines::host::{Host, open};

/// Size of a page, bytes. A shard has several pages, so that some structures lie across two pages.
pub(crate) const PAGE_BYTES: usize = 700;

/// Stores, by shard.
struct Stores(Vec<Store>);

impl Rows for Stores {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        page(&self.0[usize::from(shard.0)], from, bytes.min(PAGE_BYTES))
    }
}

/// Shards that run, and do nothing.
struct Resting<'a>(&'a [Host]);

impl Rows for Resting<'_> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        let process = self.0[usize::from(shard.0)].process.as_ref();
        let process = process.ok_or_else(|| format!("shard {shard} does not run"))?;
        process.look(|store| page(store, from, bytes.min(PAGE_BYTES)))
    }
}

/// About `bytes` bytes of rows of a store, from the key `from` on.
pub(crate) fn page(store: &Store, from: &[u8], bytes: usize) -> Result<Page, String> {
    let mut page = Page { is_last: true, ..Page::default() };
    let mut size = 0;
    // No key is longer.
    let scanned = store.scan(from, &[0xff; u16::MAX as usize], &mut |key, value| {
        if size >= bytes && size > 0 {
            page.is_last = false;
            return false;
        }
        size += key.len() + value.len();
        page.rows.push((key.to_vec(), value.to_vec()));
        true
    });
    scanned.map(|()| page).map_err(|halt| format!("{halt:?}"))
}

fn volume(hosts: &[Host]) -> Volume {
    let config = &hosts[0].config;
    Volume { map: config.map.clone(), secrets: config.secrets.clone() }
}

fn judge(
    volume: &Volume,
    rows: &mut dyn Rows,
    mut bucket: Option<Bucket>,
) -> Result<(Vec<String>, Report), String> {
    let objects = bucket.as_mut().map(|bucket| bucket as &mut dyn Objects);
    let mut report = check(rows, objects, volume, Mode::Stopped, &mut Unwatched)?;
    // Objects that dead clients have left are collected later.
    report.findings.retain(|finding| finding.code != Code::ObjectUnnamed);
    Ok((in_words(&report), report))
}

fn in_words(report: &Report) -> Vec<String> {
    let in_words = report.findings.iter().map(|finding| {
        let path = finding.path.as_deref().unwrap_or("?");
        let (code, shard) = (finding.code, finding.shard);
        format!("{code}: shard {shard}: {} ({path}): {}", finding.what, finding.detail)
    });
    in_words.collect()
}

/// All faults of shards at rest, in words. Empty: there are none.
#[must_use]
pub fn at_rest(hosts: &[Host]) -> Vec<String> {
    let mut faults = Vec::new();
    for host in hosts {
        let shard = host.config.shard;
        let Some(process) = &host.process else {
            return vec![format!("shard {shard} does not run")];
        };
        let [locks, txns, prepared, opens] = process.core().in_flight();
        if (locks, txns, prepared, opens) != (0, 0, 0, 0) {
            faults.push(format!(
                "shard {shard}: {locks} locks, {txns} transactions, {prepared} prepared, {opens} opens"
            ));
        }
    }
    match judge(&volume(hosts), &mut Resting(hosts), None) {
        Ok((found, report)) => {
            faults.extend(found);
            let left = Pending { sessions: 0, ..report.pending };
            if left != Pending::default() {
                faults.push(format!("something is left: {left:?}"));
            }
        }
        Err(error) => faults.push(error),
    }
    faults
}

/// All faults, in words, that would be left if every shard died now.
#[must_use]
pub fn if_all_died(hosts: &[Host], bucket: Option<Bucket>) -> Vec<String> {
    let mut stores = Vec::new();
    for host in hosts {
        let files = host.disk.files();
        let disk = MemDisk::with_files(files.iter().map(|(name, bytes)| (&**name, &**bytes)));
        match open(&disk) {
            Ok((store, _)) => stores.push(store),
            Err(error) => return vec![format!("shard {}: {error}", host.config.shard)],
        }
    }
    match judge(&volume(hosts), &mut Stores(stores), bucket) {
        Ok((found, _)) => found,
        Err(error) => vec![error],
    }
}

/// A cluster that runs during the check.
pub trait Live {
    /// Takes the next event.
    fn step(&mut self);
    /// True time, nanoseconds.
    fn time(&self) -> u64;
    /// Whether a fault was found that ends the run. Then a shard may never come back.
    fn is_broken(&self) -> bool;
    /// The shards.
    fn hosts(&self) -> &[Host];
    /// The objects, if the check may demand that every named object exists.
    fn bucket(&self) -> Option<Bucket>;
}

/// Events that happen before each page is read.
const STEPS: u32 = 40;
/// Maximum number of events in which a dead shard must come back.
const STEPS_MAX: u32 = 1_000_000;
/// How long the check waits for running operations to end, nanoseconds.
const PAUSE: u64 = 500_000_000;

struct Running<'a, 'l>(&'a RefCell<&'l mut dyn Live>);

impl Rows for Running<'_, '_> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        let mut live = self.0.borrow_mut();
        for _ in 0..STEPS {
            live.step();
        }
        for _ in 0..STEPS_MAX {
            let host = &live.hosts()[usize::from(shard.0)];
            if let (Some(process), false) = (&host.process, host.is_in_doubt()) {
                return process.look(|store| page(store, from, bytes.min(PAGE_BYTES)));
            }
            if live.is_broken() {
                return Err("the run has ended".to_owned());
            }
            live.step();
        }
        Err(format!("shard {shard} does not come back"))
    }
}

impl Watch for Running<'_, '_> {
    fn pause(&mut self) {
        let mut live = self.0.borrow_mut();
        let until = live.time() + PAUSE;
        for _ in 0..STEPS_MAX {
            if live.time() >= until || live.is_broken() {
                break;
            }
            live.step();
        }
    }
}

/// All faults that a check of the running cluster reports, in words, and the number of suspicions
/// that it dropped.
pub fn while_running(live: &mut dyn Live) -> (Vec<String>, u64) {
    let (volume, mut bucket) = (volume(live.hosts()), live.bucket());
    let objects = bucket.as_mut().map(|bucket| bucket as &mut dyn Objects);
    let live = RefCell::new(live);
    let (mut rows, mut watch) = (Running(&live), Running(&live));
    match check(&mut rows, objects, &volume, Mode::Running, &mut watch) {
        Ok(report) => (in_words(&report), report.unjudged),
        Err(_) if live.borrow().hosts().iter().any(Host::may_be_dark) => (Vec::new(), 1),
        Err(error) => (vec![error], 0),
    }
}
