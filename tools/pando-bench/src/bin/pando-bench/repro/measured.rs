//! The GIGA+ figures for which this machine is measured: 4, 5, 10 and Table 1.

use std::path::Path;

use pando_bench::repro::figure::Figure;
use pando_bench::repro::local::{self, Backend, Baseline};
use pando_bench::repro::scaling::{Measured, PAPER_1};
use pando_bench::repro::{Size, THRESHOLD, des, growth, scaling};
use tempfile::TempDir;

use super::giga::Work;
use super::{threads, work};
use crate::output::failure::Failure;
use crate::volume::make;
use crate::volume::mounts;

impl Work<'_> {
    pub(super) fn scaling(&mut self) -> Result<Figure, Failure> {
        let (size, seed) = (self.size, self.args.seed);
        let (tcp, here) = {
            let steps = self.steps()?;
            (steps.costs, steps.in_process)
        };
        self.begin("figure 4, shards");
        let files = self.files([400_000, 100_000, 2_000]);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let mut measured = Vec::new();
        for (shards, threads) in [(1, 1), (1, cpus), (2, cpus), (4, cpus), (8, cpus)] {
            let load = threads::Load { shards, threads, files, threshold: THRESHOLD };
            let run = threads::run(load, &self.progress)?;
            // Each thread is a client with one process, and runs the shard itself.
            let setup = des::Setup {
                clients: threads,
                processes: 1,
                files,
                ..scaling::workload(shards, files, here, des::Splitting::Live, seed)
            };
            measured.push(Measured {
                shards,
                threads,
                how: "in process".to_owned(),
                files: run.files,
                rate: run.rate(),
                modelled: Some(des::run(&setup).rate()),
            });
        }
        self.begin("figure 4, model");
        let run = scaling::run(size, seed, tcp, &self.progress).map_err(Failure::from)?;
        Ok(run.figure(&measured))
    }

    pub(super) fn growth(&mut self) -> Result<Figure, Failure> {
        let (size, seed) = (self.size, self.args.seed);
        let costs = self.steps()?.costs;
        self.begin("figure 5, shards");
        let files = self.files([300_000, 100_000, 2_000]);
        let threshold = if size == Size::Tiny { 100 } else { THRESHOLD };
        let mut measured = Vec::new();
        for shards in [1, 2, 4, 8] {
            let threads = 2;
            let load = threads::Load { shards, threads, files, threshold };
            measured.push(threads::run(load, &self.progress)?.growth);
        }
        self.begin("figure 5, model");
        let run = growth::run(size, seed, costs, &self.progress).map_err(Failure::from)?;
        Ok(run.figure(&measured))
    }

    pub(super) fn backend(&self) -> Result<Figure, Failure> {
        self.begin("figure 10");
        let files = self.files([400_000, 40_000, 2_000]);
        // As many splits as the 400,000 files of the paper made.
        let threshold = THRESHOLD * files / 400_000;
        let mut backends: Vec<Backend> = Vec::new();
        for partitions in local::PARTITIONS {
            backends.push(work::backend(partitions, files, threshold, &self.progress)?);
        }
        let places = self.places()?;
        for (kind, folder) in &places {
            for partitions in local::PARTITIONS {
                let keeps = format!("directories of {kind}");
                let folder = folder.path();
                let run = local::run(folder, &keeps, partitions, files, threshold, &self.progress);
                backends.push(run.map_err(Failure::from)?);
            }
        }
        self.begin("table 1");
        let one = threads::Load { shards: 1, threads: 1, files, threshold: THRESHOLD };
        let library = threads::run(one, &self.progress)?.rate();
        let kinds = places.iter().map(|(kind, _)| kind.as_str());
        Ok(local::figure(&backends, &baselines(&backends, library, kinds)))
    }

    /// Folders on local file systems with the file systems' names: the temporary folder, and tmpfs.
    fn places(&self) -> Result<Vec<(String, TempDir)>, Failure> {
        let folder = make::temporary("pando-repro-")?;
        let mut places = vec![(kind(folder.path()), folder)];
        let shm = Path::new("/dev/shm");
        let is_other = self.size != Size::Tiny && places[0].0 != "tmpfs" && kind(shm) == "tmpfs";
        if is_other && let Ok(folder) = TempDir::with_prefix_in("pando-repro-", shm) {
            places.push(("tmpfs".to_owned(), folder));
        }
        Ok(places)
    }
}

/// The rows of Table 1.
fn baselines<'a>(
    backends: &[Backend],
    library: f64,
    kinds: impl Iterator<Item = &'a str>,
) -> Vec<Baseline> {
    let theirs = |what: &str, rate| Some((what.to_owned(), rate));
    let mut lines = vec![
        Baseline {
            what: "Pando's library, one shard in this process, one thread".to_owned(),
            paper: theirs("GIGA+, library API", 17_902.0),
            rate: Some(library),
        },
        Baseline {
            what: "through a mount: `pando-bench mount-pairs` (docs/BENCHMARKS.md)".to_owned(),
            paper: theirs("GIGA+, VFS/FUSE API", PAPER_1),
            rate: None,
        },
    ];
    for kind in kinds {
        let keeps = format!("directories of {kind}");
        let run = backends.iter().find(|run| run.keeps == keeps && run.partitions == 1);
        lines.push(Baseline {
            what: format!("{kind} of this machine, one thread"),
            paper: theirs("Linux ext3", 16_470.0).filter(|_| kind == "ext4"),
            rate: run.map(|run| run.files as f64 / run.seconds),
        });
    }
    lines
}

/// The kind of file system that holds a folder.
fn kind(path: &Path) -> String {
    let mount = mounts::of(path);
    mount.map_or_else(|| "a file system".to_owned(), |mount| mount.kind)
}
