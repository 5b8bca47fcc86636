//! Brings a volume of `pando up` up: makes it if it is new, serves it, and mounts it.

use std::process::ExitCode;
use std::sync::mpsc::Receiver;

use pando_server::{Folder, FolderError, Superblock};

use super::running::Running;
use super::serve;
use crate::commands::up::args::UpArgs;
use crate::console::output::say;
use crate::failure::Failure;
use crate::mounting::mount::can_mount;
use crate::mounting::mountpoint;
use crate::process::background::{self, Way};
use crate::process::signals::{self, Stop};
use crate::serving::options::host_options;
use crate::volume::format::SHARDS;

pub fn run(args: &UpArgs) -> Result<ExitCode, Failure> {
    // Checked before a volume is made that could not be mounted.
    can_mount()?;
    let folder = Folder::new(&args.folder)?;
    let log = folder.log();
    if args.detach {
        // Done in the parent: it makes the folder of the log, and its messages are for the user.
        open_or_format(&folder, args.shards)?;
    }
    let way = Way { detach: args.detach, background: args.background, json: args.json, log: &log };
    background::run(way, || bring_up(args, folder))
}

/// Starts everything up to a usable mount and an admin socket that answers.
fn bring_up(args: &UpArgs, folder: Folder) -> Result<(Running, Receiver<Stop>), Failure> {
    let mountpoint = mountpoint::prepare(&args.mount, Some(folder.path()))?;
    let superblock = open_or_format(&folder, args.shards)?;
    let lock = folder.lock()?;
    let options = host_options(args.durability, &args.sizes);
    // Leaves the current directory, so that this process keeps no file system busy.
    let _ = std::env::set_current_dir("/");
    let (stop, stops) = signals::listen()?;
    let running = Running::start(folder, superblock, lock, &mountpoint, args, &options)?;
    serve::serve(&running, stop)?;
    Ok((running, stops))
}

fn open_or_format(folder: &Folder, shards: Option<u16>) -> Result<Superblock, Failure> {
    let superblock = match folder.read() {
        Ok(superblock) => superblock,
        Err(FolderError::NoVolume(_)) => return make(folder, shards.unwrap_or(SHARDS)),
        // A new volume is made here.
        Err(FolderError::NotAVolume { path, found }) => {
            return Err(FolderError::Occupied { path, found }.into());
        }
        Err(error) => return Err(error.into()),
    };
    match shards {
        Some(wanted) if wanted != superblock.shards => {
            let (shown, made) = (folder.path().display(), superblock.shards);
            Err(Failure::plain(format!(
                "{shown} was made with {made} shards: leave out --shards; `pando shard add {shown}` adds one"
            )))
        }
        _ => Ok(superblock),
    }
}

fn make(folder: &Folder, shards: u16) -> Result<Superblock, Failure> {
    let superblock = crate::volume::format::format(folder, shards)?;
    say!(
        "made volume {} with {} shards in {}",
        superblock.uuid,
        superblock.shards,
        folder.path().display()
    );
    Ok(superblock)
}
