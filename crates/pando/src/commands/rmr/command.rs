//! `pando rmr`: removes a tree through the client library, past the kernel.
//!
//! The kernel removes one name of a directory after another, with two requests each, and a process
//! makes one call at a time. This command has as many requests under way as its session has slots.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use pando_client::Client;
use pando_types::{Credentials, Errno, FileKind, Ino, Name};

use super::tree::{self, Counts, Job, Progress};
use crate::admin::locate::{self, Located};
use crate::console::output::aside;
use crate::console::text::{count, several};
use crate::failure::Failure;
use crate::mounts;
use crate::volume::connect::connect;
use crate::volume::keys;
use crate::volume::named::Named;

/// Remove a directory of a mounted volume with all that is in it, faster than `rm -rf`
///
/// The command asks the shards directly, for many names at once, with your permissions. It names
/// what you may not remove, and leaves it. If it is interrupted, run it again to remove the rest.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  pando rmr ~/tree/cache")]
pub struct RmrArgs {
    /// Path on a mount; a symbolic link is removed, not what it points to
    pub path: PathBuf,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

pub fn run(args: &RmrArgs) -> Result<ExitCode, Failure> {
    let located = locate::locate(&args.path)?;
    check(&located)?;
    let named = Named::parse(&located.volume)?;
    let connected = connect(&named, keys::find(&named, args.key.as_ref())?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(Failure::plain)?;
    runtime.block_on(async {
        let client = Client::connect(connected.transport.clone(), connected.volume()).await;
        let client = client.map_err(|errno| {
            Failure::plain(format!(
                "cannot begin a session with the volume ({errno}): `pando status` of the volume \
                 shows whether its servers run"
            ))
        })?;
        let client = Arc::new(client);
        let result = remove(&client, &located).await;
        // If this fails, the session ends with its lease. It has no files open.
        let _ = client.close().await;
        result
    })
}

/// Refuses at the start what `rm -rf` would refuse only when it reaches it.
fn check(located: &Located) -> Result<(), Failure> {
    let shown = located.path.display();
    if located.names.is_empty() {
        return Err(Failure::plain(format!(
            "{shown} is a mount itself: name what is in it, or remove the volume"
        )));
    }
    let mounts = mounts::all()
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    match mounts.iter().find(|mount| mount.path.starts_with(&located.path)) {
        Some(mount) => Err(Failure::plain(format!(
            "something is mounted at {}: unmount it first",
            mount.path.display()
        ))),
        None => Ok(()),
    }
}

async fn remove(client: &Arc<Client>, located: &Located) -> Result<ExitCode, Failure> {
    let by = caller()?;
    let begun = Instant::now();
    let progress = Arc::new(Progress::default());
    let errno = |errno: Errno| Failure::plain(format!("{}: {errno}", located.path.display()));
    let (parent, name) = walk(client, &by, located).await.map_err(errno)?;
    let found = client.lookup_brief(&by, parent, &name).await.map_err(errno)?;
    let job = Arc::new(Job::new(client.clone(), by, progress.clone()));
    if found.kind == FileKind::Directory {
        let removing = tree::remove(&job, parent, name, found.ino, located.path.clone());
        told(removing, &progress).await;
    } else {
        job.client.unlink(&job.credentials, parent, &name).await.map_err(errno)?;
        progress.removed_file();
    }
    let Counts { files, directories, failures } = progress.counts();
    let seconds = begun.elapsed().as_secs_f64();
    let rate = count(((files + directories) as f64 / seconds) as u64);
    aside(format_args!("  {} in {seconds:.1} s: {rate} a second", removed(files, directories)));
    match failures {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::plain(format!(
            "{} could not be removed, nor the directories they are in: the lines before say why",
            several(failures, "path", "paths")
        ))),
    }
}

/// Waits for the work, and prints the progress at intervals.
async fn told(work: impl Future<Output = ()>, progress: &Progress) {
    let mut work = std::pin::pin!(work);
    loop {
        if tokio::time::timeout(PROGRESS_INTERVAL, work.as_mut()).await.is_ok() {
            return;
        }
        let Counts { files, directories, .. } = progress.counts();
        aside(format_args!("  {}", removed(files, directories)));
    }
}

fn removed(files: u64, directories: u64) -> String {
    let files = several(files, "file", "files");
    format!("{files} and {} removed", several(directories, "directory", "directories"))
}

/// The directory that holds the object, and the object's name in it. It checks search permission on
/// every directory of the path.
async fn walk(
    client: &Client,
    credentials: &Credentials,
    located: &Located,
) -> Result<(Ino, Name), Errno> {
    let names: Result<Vec<Name>, Errno> =
        located.names.iter().map(|name| Name::new(name.as_bytes())).collect();
    let mut names = names?;
    let last = names.pop().ok_or(Errno::EBUSY)?;
    let mut at = Ino::ROOT;
    for name in &names {
        at = client.lookup_brief(credentials, at, name).await?.ino;
    }
    Ok((at, last))
}

/// Credentials of this process.
fn caller() -> Result<Credentials, Failure> {
    let groups = rustix::process::getgroups().map_err(Failure::plain)?;
    Ok(Credentials::new(
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
        groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
    ))
}
