//! A FUSE that passes every read through to a local folder. The kernel may remember nothing, so it
//! shows what programs pay that read through FUSE without any memory. It is read-only: others
//! change the folder.
//!
//! Like the example of libfuse, it answers FLUSH.

mod adaptor;
mod nodes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::failure::Failure;
use crate::output::print;

/// Interval of checks whether another process has unmounted the file system.
const LOOK: Duration = Duration::from_millis(50);

/// Mount a folder read-only at another, by FUSE, until a signal comes or it is unmounted
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct PassArgs {
    /// The folder that is passed through
    pub folder: PathBuf,
    /// An existing directory
    pub mountpoint: PathBuf,
}

pub fn serve(args: &PassArgs) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::plain(format!("cannot watch for signals: {error}")))?;
    let folder = args.folder.canonicalize().map_err(|error| {
        Failure::plain(format!("cannot pass {} through: {error}", args.folder.display()))
    })?;
    let options = pando_fuse::Options {
        allow_other: rustix::process::geteuid().is_root(),
        read_only: true,
        default_permissions: true,
        source: "pass".to_owned(),
        ..pando_fuse::Options::default()
    };
    let filesystem = Arc::new(adaptor::PassFs::new(folder));
    let mounted = pando_fuse::mount_filesystem(filesystem, &args.mountpoint, &options)
        .map_err(Failure::plain)?;
    print::json(&serde_json::json!({ "mount": mounted.mountpoint().display().to_string() }));
    while signals.pending().next().is_none() && !mounted.is_over() {
        std::thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}
