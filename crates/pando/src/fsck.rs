//! `pando fsck`: checks a volume's records and objects, and repairs a stopped volume.

mod report;
mod served;
mod source;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::FsckArgs;
use crate::connect::{Named, Questioner, objects};
use crate::failure::{DAMAGED, Failure};
use crate::keys;
use crate::output;
use pando_fsck::{Mode, Objects, Repaired, Volume};
pub use served::Served;
pub use source::StoredObjects;
use source::{Source, Stopped};
use watch::Terminal;

pub fn run(args: &FsckArgs) -> Result<ExitCode, Failure> {
    let named = Named::parse(&args.target)?;
    let shown = named.shown();
    let Opened { mut source, volume, objects } = open(args, &named)?;
    let mut objects = objects.map(|path| StoredObjects::open(&path)).transpose()?;
    let objects = objects.as_mut().map(|objects| objects as &mut dyn Objects);
    let shards = source.shards().max(volume.map.shards);
    let mut watch = Terminal::new(shards);
    let checked = if args.repair {
        let Some(repairs) = source.repairs() else { return Err(source::running(&shown)) };
        pando_fsck::repair(repairs, objects, &volume, &mut watch)
    } else {
        let mode = source.mode();
        let left = pando_fsck::check(source.rows(), objects, &volume, mode, &mut watch);
        left.map(|left| Repaired { mended: Vec::new(), left })
    };
    watch.clear();
    let repaired = checked.map_err(|error| Failure::new(DAMAGED, error))?;
    if args.json {
        output::json(&report::json(&shown, &repaired, source.mode() == Mode::Running));
    } else {
        output::line(report::text(&shown, shards, &repaired).trim_end());
    }
    let is_clean = repaired.left.is_clean();
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

/// A volume that is open for a check.
struct Opened {
    source: Source,
    volume: Volume,
    /// The folder of objects. `None`: this machine cannot reach file data, so it is not checked.
    objects: Option<PathBuf>,
}

fn open(args: &FsckArgs, named: &Named) -> Result<Opened, Failure> {
    if let Named::Folder(folder, superblock) = named
        && folder.holder()?.is_none()
        && folder.shard_holders()?.is_empty()
    {
        return Ok(Opened {
            source: Source::Stopped(Stopped::open(folder, superblock)?),
            volume: Volume { map: superblock.map(), secrets: superblock.secrets() },
            objects: Some(folder.objects()),
        });
    }
    if args.repair {
        return Err(source::running(&named.shown()));
    }
    let questioner = Questioner::new(named, keys::find(named, args.key.as_ref())?)?;
    let facts = questioner.facts();
    let objects = match objects(facts, args.objects.as_ref()) {
        Ok(path) => Some(path),
        Err(failure) => {
            eprintln!("pando: objects are not checked: {}", failure.message);
            None
        }
    };
    let volume = Volume { map: facts.map.clone(), secrets: facts.secrets.clone() };
    Ok(Opened { source: Source::Served(Served::new(questioner)), volume, objects })
}
