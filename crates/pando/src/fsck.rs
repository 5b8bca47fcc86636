//! `pando fsck`.

mod report;
mod source;
mod watch;

use std::process::ExitCode;

use pando_fsck::{Mode, Objects, Repaired, Volume};
use pando_server::Folder;

use crate::cli::FsckArgs;
use crate::failure::{DAMAGED, Failure};
use crate::output;
use source::{Source, StoredObjects};
use watch::Terminal;

pub fn run(args: &FsckArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    let superblock = folder.read()?;
    let volume = Volume { map: superblock.map(), secrets: superblock.secrets() };
    let mut source = Source::open(&folder, &superblock)?;
    let mut objects = StoredObjects::open(&folder)?;
    let objects: Option<&mut dyn Objects> = Some(&mut objects);
    let mut watch = Terminal::new(superblock.shards);
    let checked = if args.repair {
        let Some(repairs) = source.repairs() else { return Err(source::running(&folder)) };
        pando_fsck::repair(repairs, objects, &volume, &mut watch)
    } else {
        let mode = source.mode();
        let left = pando_fsck::check(source.rows(), objects, &volume, mode, &mut watch);
        left.map(|left| Repaired { mended: Vec::new(), left })
    };
    watch.clear();
    let repaired = checked.map_err(|error| Failure::new(DAMAGED, error))?;
    if args.json {
        output::json(&report::json(&folder, &repaired, source.mode() == Mode::Running));
    } else {
        output::line(report::text(&folder, &superblock, &repaired).trim_end());
    }
    let is_clean = repaired.left.is_clean();
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}
