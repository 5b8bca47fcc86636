//! Extracting the tree, with and without fsync, and removing it.

use std::fs;
use std::path::Path;

use crate::output::failure::Failure;
use crate::trees::kit::programs::Programs;
use crate::trees::kit::{Kit, failed};
use crate::trees::row::{Figure, Row};
use crate::trees::system::Stage;

/// Extracts the tree once without counting, and compares it. Rounds do not compare, since that
/// would have the kernel know more than it does after an extraction.
pub fn prepare(stage: &Stage, kit: &Kit<'_>) -> Result<(), Failure> {
    let target = stage.root().join("extract-before");
    unpack(&target, kit)?;
    kit.materials.compare(&target)?;
    remove(&target, kit).map(drop)
}

pub fn extract(stage: &Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let target = stage.root().join("extract");
    let extracted = Figure::time(Row::Extract, unpack(&target, kit)?);
    Ok(vec![extracted, Figure::time(Row::Rm, remove(&target, kit)?)])
}

pub fn extract_fsync(stage: &Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let target = stage.root().join("extract-fsync");
    let extracted = unpack(&target, kit)?;
    let mut sync = Programs::command("xargs", &target);
    sync.args(["-0", "-a"]).arg(kit.materials.names()).arg("sync");
    let synced = kit.programs.run(&mut sync)?.seconds;
    kit.materials.compare(&target)?;
    remove(&target, kit)?;
    Ok(vec![Figure::time(Row::ExtractFsync, extracted + synced)])
}

/// Extracts the tree into a new folder. Returns the program's seconds.
pub fn unpack(target: &Path, kit: &Kit<'_>) -> Result<f64, Failure> {
    fs::create_dir(target).map_err(failed("make", target))?;
    Ok(kit.programs.run(&mut kit.materials.unpack(target))?.seconds)
}

/// Removes a tree. Returns the program's seconds.
pub fn remove(target: &Path, kit: &Kit<'_>) -> Result<f64, Failure> {
    let mut remove = Programs::command("rm", kit.materials.folder());
    Ok(kit.programs.run(remove.arg("-r").arg(target))?.seconds)
}
