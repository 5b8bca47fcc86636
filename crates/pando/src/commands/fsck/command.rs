//! `pando fsck`: checks a volume's records and objects, and repairs a stopped volume.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pando_fsck::{Mode, Objects, Repaired, Volume};

use super::report;
use super::source::{self, Source};
use super::watch::Terminal;
use crate::console::output::{self, say};
use crate::failure::{DAMAGED, Failure};
use crate::sources::objects::StoredObjects;
use crate::sources::served::Served;
use crate::sources::stopped::Stopped;
use crate::volume::connect::objects;
use crate::volume::keys;
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// Check whether a volume is whole, and mend it
///
/// The check compares all records of all shards with each other, and with the stored objects. Only
/// --repair changes anything. It mends what follows from other records, never guesses, and loses
/// nothing that can be reached. A running volume is checked through its servers; to be repaired, it
/// must be stopped.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando fsck ~/volume                what is wrong, if anything
  pando fsck ~/volume --repair       and mend what can be
  pando fsck ~/volume --json | jq '.findings[].code'

Exit codes:
  0  it is whole, or is so again
  5  something is wrong, or is left so
  (others: see `pando --help`)")]
pub struct FsckArgs {
    /// Folder of the volume, or address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder of the volume's objects on this machine [default: the path that the servers use]
    #[arg(long, value_name = "FOLDER")]
    pub objects: Option<PathBuf>,
    /// Mend what follows from other records; the volume must be stopped
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

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
            say!("objects are not checked: {}", failure.message);
            None
        }
    };
    let volume = Volume { map: facts.map.clone(), secrets: facts.secrets.clone() };
    Ok(Opened { source: Source::Served(Served::new(questioner)), volume, objects })
}
