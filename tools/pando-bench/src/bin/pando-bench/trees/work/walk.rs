//! `find` and `grep -r` over the tree, first after a mount, and once more.

use std::path::Path;

use super::extract;
use crate::output::failure::Failure;
use crate::trees::kit::Kit;
use crate::trees::kit::programs::Programs;
use crate::trees::row::{Figure, Row};
use crate::trees::system::Stage;

const TREE: &str = "tree";

/// Extracts the tree, unless another row has. On a local folder it is walked once: there it is
/// always warm.
pub fn prepare(stage: &Stage, kit: &Kit<'_>) -> Result<(), Failure> {
    let target = stage.making().join(TREE);
    if !target.exists() {
        extract::unpack(&target, kit)?;
        kit.materials.compare(&target)?;
    }
    search(&stage.root().join(TREE), kit).map(drop)
}

pub fn find(stage: &mut Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    stage.remount()?;
    let target = stage.root().join(TREE);
    let first = list(&target, kit)?;
    Ok(vec![Figure::time(Row::Find1, first), Figure::time(Row::Find2, list(&target, kit)?)])
}

pub fn grep(stage: &mut Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    stage.remount()?;
    let target = stage.root().join(TREE);
    let first = search(&target, kit)?;
    Ok(vec![Figure::time(Row::Grep1, first), Figure::time(Row::Grep2, search(&target, kit)?)])
}

fn list(target: &Path, kit: &Kit<'_>) -> Result<f64, Failure> {
    let mut find = Programs::command("find", target);
    let ran = kit.programs.run(find.args([".", "-size", "+0"]))?;
    let (seconds, lines) = (ran.seconds, ran.lines()?);
    let census = &kit.materials.census;
    let least = census.files - census.empty_files;
    // Whether a directory or a short link has blocks is each file system's own matter.
    let most = least + census.links + census.directories + 1;
    if (least..=most).contains(&lines) {
        return Ok(seconds);
    }
    Err(wrong(target, &format!("find lists {lines} names instead of {least} to {most}")))
}

fn search(target: &Path, kit: &Kit<'_>) -> Result<f64, Failure> {
    let mut grep = kit.materials.grep(&kit.args.word, target);
    let ran = kit.programs.run_with(&mut grep, &[0, 1])?;
    let (seconds, lines) = (ran.seconds, ran.lines()?);
    if lines == kit.materials.found {
        return Ok(seconds);
    }
    let found = kit.materials.found;
    Err(wrong(target, &format!("grep finds {lines} lines instead of {found}")))
}

fn wrong(target: &Path, what: &str) -> Failure {
    Failure::plain(format!("WRONG ANSWER in {}: {what}", target.display()))
}
