//! The rounds: each work on all systems in turn, in another order each time.

use std::process::ExitCode;

use pando_bench::Watch;
use serde_json::json;

use super::args::TreesArgs;
use super::figures::Figures;
use super::kit::{Kit, needs};
use super::row::System;
use super::show;
use super::system::Stage;
use super::work::Work;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;

pub fn run(args: &TreesArgs) -> Result<ExitCode, Failure> {
    needs::check(args)?;
    let works: Vec<Work> = Work::ALL
        .into_iter()
        .filter(|work| work.rows().iter().any(|row| args.rows.contains(row)))
        .collect();
    let progress = Progress::new(args.json)?;
    progress.part("materials");
    let kit = Kit::make(args, &progress)?;
    let mut stages = start(args, &works)?;
    let mut figures = Figures::default();
    prepare(&works, &stages, &kit, &mut figures, &progress)?;
    for round in 1..=args.rounds {
        progress.part(&format!("round {round} of {}", args.rounds));
        measure(round, &works, &mut stages, &kit, &mut figures, &progress)?;
    }
    let facts = facts(args, &stages, &kit);
    // Everything is unmounted and removed before figures are told.
    drop(stages);
    drop(kit);
    tell(args, facts, &figures);
    Ok(if figures.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts the systems that have a row.
fn start(args: &TreesArgs, works: &[Work]) -> Result<Vec<Stage>, Failure> {
    let is_wanted = |system: &System| {
        args.systems.contains(system) && works.iter().any(|work| work.is_for(*system, &args.rows))
    };
    let wanted = System::ALL.into_iter().filter(is_wanted);
    wanted.map(|system| Stage::start(system, args)).collect()
}

fn prepare(
    works: &[Work],
    stages: &[Stage],
    kit: &Kit<'_>,
    figures: &mut Figures,
    progress: &Progress,
) -> Result<(), Failure> {
    progress.part("before");
    for work in works {
        progress.begin(&work.name(), stages.len() as u64);
        for (stage, done) in stages.iter().zip(1..) {
            if work.is_for(stage.system, &kit.args.rows)
                && let Err(why) = work.prepare(stage, kit)
            {
                kit.programs.go_on()?;
                figures.fail(0, stage.system, work.name(), &why);
            }
            progress.advance(done);
        }
        progress.end();
    }
    Ok(())
}

fn measure(
    round: u32,
    works: &[Work],
    stages: &mut [Stage],
    kit: &Kit<'_>,
    figures: &mut Figures,
    progress: &Progress,
) -> Result<(), Failure> {
    for (work, number) in works.iter().zip(round as usize..) {
        progress.begin(&work.name(), stages.len() as u64);
        let count = stages.len();
        for turn in 0..count {
            let stage = &mut stages[(turn + number) % count];
            let system = stage.system;
            if work.is_for(system, &kit.args.rows) && !figures.has_failed(&work.name(), system) {
                match work.measure(stage, kit) {
                    Ok(taken) => {
                        let wanted = taken
                            .into_iter()
                            .filter(|figure| kit.wants(figure.row) && figure.row.is_for(system));
                        figures.add(round, system, wanted);
                    }
                    Err(why) => {
                        kit.programs.go_on()?;
                        figures.fail(round, system, work.name(), &why);
                    }
                }
            }
            progress.advance(turn as u64 + 1);
        }
        progress.end();
    }
    Ok(())
}

fn facts(args: &TreesArgs, stages: &[Stage], kit: &Kit<'_>) -> serde_json::Value {
    let kind = |stage: &Stage| json!({ "system": stage.system, "file_system": stage.kind() });
    let census = &kit.materials.census;
    json!({
        "systems": stages.iter().map(kind).collect::<Vec<_>>(),
        "rounds": args.rounds,
        "shards": args.shards,
        "durability": args.durability.name(),
        "tree": {
            "files": census.files,
            "directories": census.directories,
            "links": census.links,
            "bytes": census.bytes,
            "word": args.word,
            "lines_with_word": kit.materials.found,
        },
        "clone_files": args.clone_files,
        "reread_mib": args.reread_mib,
        "calls": args.calls,
        "recalls": args.recalls,
        "files": args.files,
    })
}

fn tell(args: &TreesArgs, facts: serde_json::Value, figures: &Figures) {
    if args.json {
        return print::json(&with(with(context(), facts), figures.json()));
    }
    let tree = &facts["tree"];
    print::line(&format!(
        "a tree of {} files, {} directories, {} bytes; {} rounds, durability {}",
        tree["files"],
        tree["directories"],
        tree["bytes"],
        args.rounds,
        args.durability.name()
    ));
    for system in facts["systems"].as_array().into_iter().flatten() {
        let text = |key: &str| system[key].as_str().unwrap_or("unknown");
        print::line(&format!("{}: {}", text("system"), text("file_system")));
    }
    print::line(&show::lines(&figures.lines()));
    for failed in &figures.failed {
        print::line(&show::failed(failed));
    }
}
