//! The closer look at what the sweep suspects. Single rows are read again and judged together. A
//! finding lists everything that it follows from, so that it can be confirmed and mended.

mod data;
mod dirs;
mod links;
mod partitions;
mod sessions;
pub mod tables;
mod txns;

use std::collections::BTreeSet;

use pando_types::op::ObjectId;
use pando_types::{DirId, Ino};

use crate::Mode;
use crate::finding::Findings;
use crate::locate::{Located, locate};
use crate::probe::Probe;
use crate::source::{Objects, Progress, Rows, Watch};
use crate::sweep::Sweep;

/// Most suspicions of one kind that are looked at. Further ones are only counted.
const SUSPECTS_MAX: usize = 100_000;

/// Judges suspicions and collects findings.
pub struct Judge<'a, 's> {
    probe: Probe<'a>,
    sweep: &'s Sweep<'s>,
    located: Located,
    found: Findings,
    not_looked_at: u64,
}

/// Result of the judgement.
pub struct Judged {
    pub found: Findings,
    pub not_looked_at: u64,
    pub objects: u64,
}

/// Judges everything that the sweep suspects.
pub fn judge(
    rows: &mut dyn Rows,
    objects: &mut Option<&mut dyn Objects>,
    sweep: &mut Sweep<'_>,
    mode: Mode,
    watch: &mut dyn Watch,
) -> Result<Judged, String> {
    let (mut dirs, loops) = sweep.tree.suspects(sweep.volume);
    let mut links: Vec<Ino> = sweep.inos.suspects().into_iter().collect();
    let mut twice: Vec<Ino> = sweep.inos.twice().into_iter().collect();
    let mut not_looked_at = cut(&mut dirs) + cut(&mut links) + cut(&mut twice);
    let stored = match objects {
        Some(objects) => data::stored(&mut **objects, sweep, mode, watch)?,
        None => data::Stores::default(),
    };
    let mut wanted: BTreeSet<ObjectId> = sweep.needed.suspects();
    wanted.extend(stored.missing.iter().chain(&stored.short).copied());
    let lost = links.iter().filter(|ino| sweep.inos.has_unknown_names(**ino));
    let beyond = tables::beyond_counters(sweep);
    let inos = lost.chain(&twice).chain(&beyond).copied().collect();
    let located = locate(rows, sweep.volume, sweep.busy, inos, wanted, watch)?;
    let mut judge = Judge {
        probe: Probe { rows, volume: sweep.volume },
        sweep,
        located,
        found: Findings::default(),
        not_looked_at: 0,
    };
    let mut looked = 0;
    let mut tell = |watch: &mut dyn Watch| {
        looked += 1;
        if looked % 100 == 0 {
            watch.progress(Progress::Suspects(looked));
        }
    };
    for dir in dirs {
        tell(watch);
        judge.directory(dir)?;
    }
    for members in loops {
        judge.directory_loop(&members)?;
    }
    for outside in &sweep.outside {
        tell(watch);
        judge.outside(outside)?;
    }
    for ino in links {
        tell(watch);
        judge.link(ino)?;
    }
    for ino in twice {
        tell(watch);
        judge.ino_twice(ino)?;
    }
    judge.opens()?;
    // While the volume runs, pages show what shards have heard at different moments.
    if mode != Mode::Running {
        judge.sessions()?;
        judge.sessions_heard()?;
    }
    judge.session_keys()?;
    judge.counters(&beyond)?;
    judge.transactions()?;
    judge.arrivals();
    judge.objects(objects, &stored)?;
    not_looked_at += judge.not_looked_at;
    Ok(Judged { found: judge.found, not_looked_at, objects: stored.count })
}

fn cut<T>(suspects: &mut Vec<T>) -> u64 {
    let more = suspects.len().saturating_sub(SUSPECTS_MAX);
    suspects.truncate(SUSPECTS_MAX);
    more as u64
}

impl Judge<'_, '_> {
    fn is_unreadable(&self, dir: DirId) -> bool {
        self.sweep.tables.unreadable_dirs.contains(&dir)
    }
}
