//! `pando-bench giga`: the figures of GIGA+. The workloads and models are in
//! `pando_bench::repro`.

use std::process::ExitCode;
use std::time::Duration;

use pando_bench::repro::figure::Figure;
use pando_bench::repro::redundant::Bytes;
use pando_bench::repro::{Size, addressing, charts, early, loadbalance, policies, redundant};
use serde_json::json;

use super::args::{GigaArgs, Part};
use super::show::show;
use super::steps::{self, Steps};
use super::{threads, work};
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;

pub fn run(args: &GigaArgs) -> Result<ExitCode, Failure> {
    let size = match (args.tiny, args.quick) {
        (true, _) => Size::Tiny,
        (false, true) => Size::Quick,
        (false, false) => Size::Full,
    };
    let progress = Progress::new(args.json)?;
    let mut work = Work { args, size, progress, steps: None };
    let figures = work.figures()?;
    drop(work);
    let mut drawn = Vec::new();
    if let Some(folder) = &args.charts {
        let all: Vec<_> = figures.iter().flat_map(|figure| figure.charts.clone()).collect();
        drawn = charts::draw(&all, folder).map_err(Failure::from)?;
    }
    if args.json {
        let facts = json!({ "size": size, "seed": args.seed, "charts": drawn, "figures": figures });
        print::json(&with(context(), facts));
        return Ok(ExitCode::SUCCESS);
    }
    for figure in &figures {
        show(figure);
    }
    for file in drawn {
        print::line(&format!("drawn: {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// One run of the command.
pub struct Work<'a> {
    pub args: &'a GigaArgs,
    pub size: Size,
    pub progress: Progress,
    /// The measured costs of each step. Measured once, by the first figure that needs them.
    steps: Option<Steps>,
}

impl Work<'_> {
    fn figures(&mut self) -> Result<Vec<Figure>, Failure> {
        use clap::ValueEnum;
        let is_wanted = |part: &Part| self.args.only.is_empty() || self.args.only.contains(part);
        let parts: Vec<Part> = Part::value_variants().iter().copied().filter(is_wanted).collect();
        let mut figures = Vec::new();
        for part in parts {
            figures.extend(self.part(part)?);
        }
        Ok(figures)
    }

    fn part(&mut self, part: Part) -> Result<Vec<Figure>, Failure> {
        let (size, seed) = (self.size, self.args.seed);
        Ok(match part {
            Part::Steps => vec![self.steps()?.figure()],
            Part::Scaling => vec![self.scaling()?],
            Part::Growth => vec![self.growth()?],
            Part::Policies => {
                let costs = self.steps()?.costs;
                self.begin("figure 6, shards");
                let measured = work::policies(size, &self.progress)?;
                self.begin("figures 6 and 8, model");
                let run =
                    policies::run(size, seed, costs, &self.progress).map_err(Failure::from)?;
                run.figures(&measured).into()
            }
            Part::Balance => {
                self.begin("figure 7");
                vec![loadbalance::run(size, seed).figure()]
            }
            Part::Addressing => {
                self.begin("figure 9");
                let run = addressing::run(size, seed, &self.progress).map_err(Failure::from)?;
                vec![run.figure()]
            }
            Part::Backend => vec![self.backend()?],
            Part::Redundant => {
                let bytes_of: Bytes = self.steps()?.bytes;
                self.begin("poster");
                vec![redundant::run(bytes_of, seed).figure()]
            }
            Part::Early => {
                let costs = self.steps()?.costs;
                self.begin("report, model");
                vec![early::run(size, seed, costs, &self.progress).map_err(Failure::from)?.figure()]
            }
        })
    }

    /// Reports the part of the work that begins now.
    pub fn begin(&self, what: &str) {
        self.progress.part(what);
    }

    pub fn steps(&mut self) -> Result<&Steps, Failure> {
        if self.steps.is_none() {
            self.begin("costs of steps");
            let (directories, files, seconds) = match self.size {
                Size::Full => (12, 100_000, 2.0),
                Size::Quick => (4, 30_000, 0.5),
                Size::Tiny => (1, 200, 0.02),
            };
            let create = threads::create_alone(files)?;
            let time = Duration::from_secs_f64(seconds);
            let steps = steps::measure(directories, time, create, &self.progress)?;
            self.steps = Some(steps);
        }
        self.steps.as_ref().ok_or_else(|| Failure::plain("nothing was measured"))
    }

    /// The number of files for this size of run: full, quick, or a test.
    pub const fn files(&self, [full, quick, tiny]: [u64; 3]) -> u64 {
        match self.size {
            Size::Full => full,
            Size::Quick => quick,
            Size::Tiny => tiny,
        }
    }
}
