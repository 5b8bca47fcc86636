//! `git status` of a repository that is known, and `git clone`.

use super::extract;
use crate::output::failure::Failure;
use crate::trees::kit::materials::git;
use crate::trees::kit::{Kit, failed};
use crate::trees::made::census::Census;
use crate::trees::row::{Figure, Row};
use crate::trees::system::Stage;

const REPOSITORY: &str = "repository";

/// Makes a repository of the tree, with one commit.
pub fn prepare(stage: &Stage, kit: &Kit<'_>) -> Result<(), Failure> {
    let target = stage.root().join(REPOSITORY);
    extract::unpack(&target, kit)?;
    for words in
        [&["init", "--quiet"][..], &["add", "--force", "."], &["commit", "--quiet", "-m", "all"]]
    {
        kit.programs.run(git(&target).args(words))?;
    }
    Ok(())
}

/// The first call may write the index, so the second counts.
pub fn status(stage: &Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let target = stage.root().join(REPOSITORY);
    let ask = || kit.programs.run(git(&target).args(["status", "--porcelain"]));
    ask()?;
    let second = ask()?;
    let seconds = second.seconds;
    match second.lines()? {
        0 => Ok(vec![Figure::time(Row::GitStatus, seconds)]),
        lines => Err(Failure::plain(format!(
            "WRONG ANSWER in {}: git status tells {lines} changes instead of none",
            target.display()
        ))),
    }
}

pub fn clone(stage: &Stage, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let target = stage.root().join("clone");
    let mut clone = git(kit.materials.folder());
    clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(kit.materials.bare()).arg(&target);
    let seconds = kit.programs.run(&mut clone)?.seconds;
    let (mut files, wanted) = (0, u64::from(kit.args.clone_files));
    let is_source = |name: &[u8]| !name.starts_with(b".git/");
    let counted = Census::take(&target, |name| files += u64::from(is_source(name)));
    counted.map_err(failed("list", &target))?;
    if files != wanted {
        let shown = target.display();
        return Err(Failure::plain(format!("WRONG ANSWER: {shown} has {files} files of {wanted}")));
    }
    extract::remove(&target, kit)?;
    Ok(vec![Figure::time(Row::GitClone, seconds)])
}
