//! Finds what the user asks about, and writes the report.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pando_server::{Folder, Superblock};

use super::files::{end_of_log, listed_mounts, machine};
use super::processes::{configuration, mounted, process, servers, whole};
use super::report::Report;
use crate::admin::mount;
use crate::admin::sockets::log;
use crate::console::output;
use crate::console::text::bytes;
use crate::failure::Failure;
use crate::volume::named::Named;

/// Write all that helps to find out what is wrong into one file
#[derive(Args, Debug)]
#[command(after_help = "\
The text has versions, limits, configuration, the status of what answers, and the ends of logs. It
has no keys, no secrets and no environment. Logs may name files. It says what it could not get.

Examples:
  pando doctor ~/tree --to report.txt
  pando doctor /srv/volume --to report.txt
  pando doctor 10.0.0.1:7400 --key admin.pem --to report.txt")]
pub struct DoctorArgs {
    /// Folder at which a volume is mounted, folder of a volume, or address of any of its servers
    /// [default: this machine only]
    #[arg(value_name = "MOUNT-or-FOLDER-or-ADDRESS")]
    pub target: Option<String>,
    /// New file for the report
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// File with a key of the volume [default: as for `pando status`]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let named = match &args.target {
        Some(target) => Some(Target::parse(target)?),
        None => None,
    };
    // Made first: all else would be for nothing if it cannot be made. Others may not read it.
    let shown = args.to.display();
    let failed =
        |error: std::io::Error| Failure::plain(format!("cannot write the report {shown}: {error}"));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&args.to)
        .map_err(failed)?;
    let mut report = Report::new();
    report.add("machine", machine);
    report.add("mounts of Pando", listed_mounts);
    match named {
        Some(Target::Mount(root, volume)) => of_mount(&mut report, root, volume, args),
        Some(Target::Volume(named)) => of_volume(&mut report, named, args),
        None => {}
    }
    let text = report.finish();
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    output::line(&format!("{shown}: {}", bytes(text.len() as u64)));
    for missing in &report.missing {
        output::line(&format!("could not be got: {missing}"));
    }
    Ok(ExitCode::SUCCESS)
}

enum Target {
    Mount(PathBuf, String),
    Volume(Named),
}

impl Target {
    fn parse(text: &str) -> Result<Self, Failure> {
        // An address is no path, even if the working directory is on a mount.
        let may_be_path = text.starts_with(['/', '.', '~']) || !text.contains(':');
        match mount::at(Path::new(text)) {
            Ok((root, volume)) if may_be_path => Ok(Self::Mount(root, volume)),
            _ => Named::parse(text).map(Self::Volume),
        }
    }
}

fn of_mount(report: &mut Report, root: PathBuf, volume: String, args: &DoctorArgs) {
    let (at, of) = (root.clone(), volume.clone());
    report.add("status of the mount", move || mounted(&at, &of));
    report.add("log of the mount", move || {
        end_of_log(&log(&root).map_err(|failure| failure.message)?)
    });
    match Named::parse(&volume) {
        Ok(named) => of_volume(report, named, args),
        Err(failure) => report.add("volume", move || Err(failure.message)),
    }
}

fn of_volume(report: &mut Report, named: Named, args: &DoctorArgs) {
    if let Named::Folder(folder, superblock) = &named {
        of_folder(report, folder, superblock);
        if let Ok(Some(_)) = folder.holder() {
            let folder = folder.clone();
            return report.add("status of `pando up`", move || whole(&folder));
        }
    }
    let key = args.key.clone();
    report.add("status of the servers", move || servers(&named, key.as_ref()));
}

fn of_folder(report: &mut Report, folder: &Folder, superblock: &Superblock) {
    let (of, what) = (folder.clone(), superblock.clone());
    report.add("configuration of the volume", move || configuration(&of, &what));
    let path = folder.log();
    report.add("log of the volume", move || end_of_log(&path));
    let holders = folder.shard_holders().unwrap_or_default().into_iter().map(|(_, pid)| pid);
    let pids: BTreeSet<_> = holders.chain(folder.holder().ok().flatten()).collect();
    for pid in pids {
        report.add(&format!("process {pid}"), move || process(&pid));
    }
}
