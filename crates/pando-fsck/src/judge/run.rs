//! Judges everything that the sweep suspects.

use std::collections::BTreeSet;

use pando_types::op::ObjectId;
use pando_types::{DirId, Ino};

use crate::findings::report::Findings;
use crate::judge::judgement::{Judge, SUSPECTS_MAX};
use crate::judge::{data, tables};
use crate::lookup::locate::locate;
use crate::lookup::probe::Probe;
use crate::rows::mode::Mode;
use crate::rows::source::{Objects, Progress, Rows, Watch};
use crate::sweep::pass::Sweep;

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
    let more = cut(&mut dirs) + cut(&mut links) + cut(&mut twice);
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
        not_looked_at: more,
    };
    judge.suspects(Suspects { dirs, loops, links, twice }, watch)?;
    judge.tables(mode, &beyond)?;
    judge.objects(objects, &stored)?;
    let Judge { found, not_looked_at, .. } = judge;
    Ok(Judged { found, not_looked_at, objects: stored.count })
}

/// What the sweep suspects of names, directories and files.
struct Suspects {
    dirs: Vec<DirId>,
    loops: Vec<Vec<DirId>>,
    links: Vec<Ino>,
    twice: Vec<Ino>,
}

impl Judge<'_, '_> {
    fn suspects(&mut self, suspects: Suspects, watch: &mut dyn Watch) -> Result<(), String> {
        let mut looked = 0;
        let mut tell = || {
            looked += 1;
            if looked % 100 == 0 {
                watch.progress(Progress::Suspects(looked));
            }
        };
        for dir in suspects.dirs {
            tell();
            self.directory(dir)?;
        }
        for members in suspects.loops {
            self.directory_loop(&members)?;
        }
        let sweep = self.sweep;
        for outside in &sweep.outside {
            tell();
            self.outside(outside)?;
        }
        for ino in suspects.links {
            tell();
            self.link(ino)?;
        }
        for ino in suspects.twice {
            tell();
            self.ino_twice(ino)?;
        }
        Ok(())
    }

    fn tables(&mut self, mode: Mode, beyond: &[Ino]) -> Result<(), String> {
        self.opens()?;
        // While the volume runs, pages show what shards have heard at different moments.
        if mode != Mode::Running {
            self.sessions()?;
            self.sessions_heard()?;
        }
        self.session_keys()?;
        self.counters(beyond)?;
        self.transactions()?;
        self.arrivals();
        Ok(())
    }
}

fn cut<T>(suspects: &mut Vec<T>) -> u64 {
    let more = suspects.len().saturating_sub(SUSPECTS_MAX);
    suspects.truncate(SUSPECTS_MAX);
    more as u64
}
