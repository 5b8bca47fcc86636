//! `pando up`: one process with all shards of a volume and its mount.
//!
//! ```text
//! lock the folder ─ format if empty ─ recover shards ─ end old sessions ─ connect ─ mount ─ answer on the admin socket
//!       … until a signal, `pando down`, or somebody else's umount …
//! unmount ─ flush data ─ end the session ─ sync logs ─ release the lock
//! ```

mod daemon;
mod mountpoint;
mod running;
mod serve;
mod stop;
mod transport;

use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use pando_server::host::HostOptions;
use pando_server::store::StoreOptions;
use pando_server::{Durability, Folder, Superblock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::{DurabilityArg, SHARDS, UpArgs};
use crate::failure::Failure;
use crate::output;
use running::Running;
use stop::Stop;

pub fn run(args: &UpArgs) -> Result<ExitCode, Failure> {
    if args.detach {
        return daemon::start(args);
    }
    if args.background {
        return daemon::serve(args);
    }
    let began = Instant::now();
    let (running, stops) = bring_up(args)?;
    announce(args, &running, began);
    stop::serve_until_stopped(running, &stops)?;
    Ok(ExitCode::SUCCESS)
}

/// Stores keep each of their index files open; the usual limit of 1,024 is for programs that use `select`.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Refused, it goes on with what it has.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Everything up to a usable mount and an admin socket that answers.
fn bring_up(args: &UpArgs) -> Result<(Running, Receiver<Stop>), Failure> {
    allow_many_files();
    let folder = Folder::new(&args.folder)?;
    let mountpoint = mountpoint::prepare(&args.mount, folder.path())?;
    let superblock = open_or_format(&folder, args.shards)?;
    let lock = folder.lock()?;
    let options = HostOptions {
        durability: match args.durability {
            DurabilityArg::Os => Durability::Os,
            DurabilityArg::Disk => Durability::Disk,
        },
        checkpoint_bytes: args.checkpoint_bytes,
        store: StoreOptions {
            log_chunk_bytes: args.log_chunk_bytes,
            reserve_bytes: args.reserve_bytes,
            ..StoreOptions::default()
        },
        split_threshold: args.split_threshold,
    };
    // In the way of nothing: neither the mountpoint's parent nor anything else stays busy for our sake.
    let _ = std::env::set_current_dir("/");
    let running = Running::start(folder, superblock, lock, &mountpoint, args, &options)?;
    let stops = stop::listen(&running)?;
    Ok((running, stops))
}

fn open_or_format(folder: &Folder, shards: Option<u16>) -> Result<Superblock, Failure> {
    if folder.is_formatted() || folder.check_empty().is_err() {
        let superblock = folder.read()?;
        return match shards {
            Some(wanted) if wanted != superblock.shards => Err(Failure::plain(format!(
                "{} has {} shards, which cannot be changed: leave out --shards",
                folder.path().display(),
                superblock.shards
            ))),
            _ => Ok(superblock),
        };
    }
    let superblock = crate::format::format(folder, shards.unwrap_or(SHARDS))?;
    eprintln!(
        "pando: made volume {} with {} shards in {}",
        superblock.uuid,
        superblock.shards,
        folder.path().display()
    );
    Ok(superblock)
}

fn announce(args: &UpArgs, running: &Running, began: Instant) {
    if args.json {
        output::json(&running.summary());
    } else {
        output::line(&format!(
            "{} is mounted at {} ({} shards, ready in {} ms); Ctrl-C unmounts it",
            running.folder.path().display(),
            running.mountpoint().display(),
            running.superblock.shards,
            began.elapsed().as_millis()
        ));
    }
}
