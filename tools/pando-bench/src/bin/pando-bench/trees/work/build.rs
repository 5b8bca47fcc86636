//! `make -j2` of a small C project.

use super::extract;
use crate::output::failure::Failure;
use crate::trees::kit::programs::Programs;
use crate::trees::kit::{Kit, failed};
use crate::trees::made::project;
use crate::trees::row::{Figure, Row};
use crate::trees::system::Stage;

pub fn build(stage: &Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let target = stage.root().join("project");
    project::make(&target).map_err(failed("make a project in", &target))?;
    let mut make = Programs::command("make", &target);
    // Flags of a `make` above this program are not meant for this one.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("CFLAGS");
    let seconds = kit.programs.run(make.args(["-s", "-j2"]))?.seconds;
    let program = target.join(project::PROGRAM).display().to_string();
    let (said, wanted) =
        (kit.programs.run(&mut Programs::command(&program, &target))?.text(), project::expected());
    if said != wanted {
        return Err(Failure::plain(format!(
            "WRONG ANSWER: {program} says {said:?}, not {wanted:?}"
        )));
    }
    extract::remove(&target, kit)?;
    Ok(vec![Figure::time(Row::Make, seconds)])
}
