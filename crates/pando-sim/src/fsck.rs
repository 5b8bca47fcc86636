//! Is the structure whole? `pando-fsck` judges, of shards at rest and of what a crash of all of them would leave.
//!
//! 1. At the end, when nothing is under way and no session is left: nothing is wrong, and nothing is left over.
//! 2. If everything dies in the middle: nothing is wrong but what transactions will put right.
//! 3. While everything goes on, shards die and come back: nothing is said to be wrong.

use std::cell::RefCell;

use babu::{Db, MemDisk};
use pando_fsck::{Mode, Page, Pending, Report, Rows, Unwatched, Volume, Watch, check};
use pando_types::ShardIndex;

use crate::host::Host;
use crate::store::open;

/// Bytes of a page: several to a shard, so that whatever lies across two of them is met.
const PAGE_BYTES: usize = 700;

/// Stores by shard.
struct Stores<'a>(Vec<&'a Db>);

impl Rows for Stores<'_> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        page(self.0[usize::from(shard.0)], from, bytes.min(PAGE_BYTES))
    }
}

/// Rows of a store from `from` on, about `bytes`.
fn page(db: &Db, from: &[u8], bytes: usize) -> Result<Page, String> {
    let mut page = Page::default();
    let mut size = 0;
    for row in db.scan(from, None) {
        let (key, value) = row.map_err(|error| error.to_string())?;
        if size >= bytes && size > 0 {
            return Ok(page);
        }
        size += key.len() + value.len();
        page.rows.push((key.to_vec(), value.to_vec()));
    }
    page.is_last = true;
    Ok(page)
}

fn volume(hosts: &[Host]) -> Volume {
    let config = &hosts[0].config;
    Volume { map: config.map.clone(), secrets: config.secrets.clone() }
}

fn judge(volume: &Volume, stores: Vec<&Db>) -> Result<(Vec<String>, Report), String> {
    let report = check(&mut Stores(stores), None, volume, Mode::Stopped, &mut Unwatched)?;
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

/// All faults of shards at rest, in words; empty if there are none.
#[must_use]
pub fn at_rest(hosts: &[Host]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut stores = Vec::new();
    for host in hosts {
        let shard = host.config.shard;
        let Some(process) = &host.process else {
            return vec![format!("shard {shard} does not run")];
        };
        let [locks, txns, prepared, opens] = process.shard.in_flight();
        if (locks, txns, prepared, opens) != (0, 0, 0, 0) {
            faults.push(format!(
                "shard {shard}: {locks} locks, {txns} transactions, {prepared} prepared, {opens} opens"
            ));
        }
        stores.push(&process.db);
    }
    match judge(&volume(hosts), stores) {
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

/// All faults of what would be left if every shard died now.
#[must_use]
pub fn if_all_died(hosts: &[Host]) -> Vec<String> {
    let mut stores = Vec::new();
    for host in hosts {
        let files = host.disk.files();
        let disk = MemDisk::with_files(files.iter().map(|(name, bytes)| (&**name, &**bytes)));
        match open(&disk) {
            Ok((db, _)) => stores.push(db),
            Err(error) => return vec![format!("shard {}: {error}", host.config.shard)],
        }
    }
    match judge(&volume(hosts), stores.iter().collect()) {
        Ok((found, _)) => found,
        Err(error) => vec![error],
    }
}

/// A cluster that goes on.
pub trait Live {
    /// The next thing happens.
    fn step(&mut self);
    /// True time, nanoseconds.
    fn time(&self) -> u64;
    /// Its shards.
    fn hosts(&self) -> &[Host];
}

/// Things that happen between two pages.
const STEPS: u32 = 40;
/// Things that happen while a dead shard is waited for.
const STEPS_MAX: u32 = 1_000_000;
/// How long operations under way may take to end, nanoseconds.
const PAUSE: u64 = 500_000_000;

struct Running<'a, 'l>(&'a RefCell<&'l mut dyn Live>);

impl Rows for Running<'_, '_> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        let mut live = self.0.borrow_mut();
        for _ in 0..STEPS {
            live.step();
        }
        for _ in 0..STEPS_MAX {
            if let Some(process) = &live.hosts()[usize::from(shard.0)].process {
                return page(&process.db, from, bytes.min(PAGE_BYTES));
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
            if live.time() >= until {
                break;
            }
            live.step();
        }
    }
}

/// All faults that a check of the running cluster claims, in words; how many suspicions it gave up.
pub fn while_running(live: &mut dyn Live) -> (Vec<String>, u64) {
    let volume = volume(live.hosts());
    let live = RefCell::new(live);
    let (mut rows, mut watch) = (Running(&live), Running(&live));
    match check(&mut rows, None, &volume, Mode::Running, &mut watch) {
        Ok(report) => (in_words(&report), report.unjudged),
        Err(error) => (vec![error], 0),
    }
}
