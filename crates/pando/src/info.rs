//! `pando info`: shows what the volume keeps of one path.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use pando_server::Folder;
use pando_server::admin::Answer;
use pando_server::inspect::{DirectoryInfo, FileInfo, Info};
use pando_server::superblock::hex;

use crate::asking::{self, SOON};
use crate::cli::InfoArgs;
use crate::failure::Failure;
use crate::mounting::admin::socket;
use crate::mounts::Located;
use crate::protocol::{Query, Told};
use crate::text::{count, table};
use crate::{mounts, output};

pub fn run(args: &InfoArgs) -> Result<ExitCode, Failure> {
    let Located { path, root, volume, names } = mounts::locate(&args.path)?;
    let names = names.iter().map(|name| hex(name.as_bytes()));
    let query = Query::Info { names: names.collect() };
    let info = match ask(&root, &volume, &query, SOON)? {
        Answer::Ok(Told::Info(info)) => info,
        Answer::Ok(_) => return Err(Failure::plain("the process answered something else")),
        Answer::Error(error) => {
            return Err(Failure::plain(format!("{}: {error}", path.display())));
        }
    };
    if args.json {
        output::json(&WithPath { path: path.display().to_string(), info });
    } else {
        output::line(show(&path, &info).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the process of a mount, which is a `pando mount` or a `pando up`. [`asking::ask`] explains
/// `limit`.
pub fn ask(
    root: &Path,
    volume: &str,
    query: &Query,
    limit: Option<Duration>,
) -> Result<Answer<Told>, Failure> {
    let error = match asking::ask(&socket(root)?, query, limit) {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    // A list of server addresses is no folder to ask instead. A process that timed out exists, so
    // the folder's process is not asked instead.
    if !Path::new(volume).is_absolute() || error.kind() == io::ErrorKind::TimedOut {
        return Err(unanswered(root, &error));
    }
    let folder = Folder::new(Path::new(volume))?;
    // A dead `pando mount` leaves its socket behind. That process may have made this mount, while a
    // `pando up` of this volume serves another. So the answer must name this mountpoint.
    if error.kind() == io::ErrorKind::ConnectionRefused {
        let is_other = |told| match told {
            Answer::Ok(Told::Status(status)) => Path::new(&status.mount.path) != root,
            _ => false,
        };
        if asking::ask(&folder.socket(), &Query::Status, limit).is_ok_and(is_other) {
            return Err(unanswered(root, &error));
        }
    }
    asking::ask(&folder.socket(), query, limit).map_err(|error| match folder.holder() {
        Ok(Some(pid)) => crate::down::not_answering(&folder, &pid, &error),
        _ => unanswered(root, &error),
    })
}

/// The failure to report if the process of this mount is suspended.
pub fn suspended(root: &Path, volume: &str) -> Option<Failure> {
    let mut told = asking::ping(&socket(root).ok()?);
    if told.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::TimedOut)
        && Path::new(volume).is_absolute()
    {
        told = asking::ping(&Folder::new(Path::new(volume)).ok()?.socket());
    }
    let error = told.err().filter(|error| error.kind() == io::ErrorKind::TimedOut)?;
    Some(unanswered(root, &error))
}

/// The failure to report if no process answers for a mount.
fn unanswered(root: &Path, error: &io::Error) -> Failure {
    let root = root.display();
    Failure::plain(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("the mount at {root} is another user's: run this as that user or as root")
        }
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no process answers for the mount at {root}: another user mounted it, or somebody with another PANDO_RUN, or \
             its process is gone (then `pando umount {root}` clears it away)"
        ),
        _ => format!("the process of the mount at {root} does not answer: {error}"),
    })
}

#[derive(serde::Serialize)]
struct WithPath {
    path: String,
    #[serde(flatten)]
    info: Info,
}

fn show(path: &Path, info: &Info) -> String {
    match info {
        Info::Directory(directory) => show_directory(path, directory),
        Info::File(file) => show_file(path, file),
    }
}

fn show_directory(path: &Path, directory: &DirectoryInfo) -> String {
    let DirectoryInfo { id, ino, home, entries, partitions } = directory;
    let mut rows =
        vec![["partition", "depth", "shard", "entries", "state"].map(str::to_owned).to_vec()];
    rows.extend(partitions.iter().map(|partition| {
        vec![
            partition.index.to_string(),
            partition.depth.to_string(),
            partition.shard.to_string(),
            count(partition.entries),
            partition.state.clone(),
        ]
    }));
    let plural = if partitions.len() == 1 { "partition" } else { "partitions" };
    format!(
        "{}: directory, {} entries in {} {plural}\nid {id}, ino {ino}, home shard {home}\n{}",
        path.display(),
        count(*entries),
        partitions.len(),
        table(&rows)
    )
}

fn show_file(path: &Path, file: &FileInfo) -> String {
    let mut text = format!(
        "{}: {}, {} bytes, {} {}\nino {}, inode on shard {} ({}), name on shard {} (partition {})\n",
        path.display(),
        file.kind,
        count(file.size),
        file.links,
        if file.links == 1 { "name" } else { "names" },
        file.ino,
        file.shard,
        file.inode_at,
        file.name_shard,
        file.partition,
    );
    let Some(data) = &file.data else { return text };
    if data.inline {
        return text + "data: inline, with the inode\n";
    }
    text.push_str(&format!("data: {} slices in objects\n", data.slices.len()));
    let mut rows = vec![["offset", "bytes", "object", "at"].map(str::to_owned).to_vec()];
    rows.extend(data.slices.iter().map(|slice| {
        vec![
            count(slice.offset),
            count(slice.len),
            slice.object.clone(),
            count(slice.object_offset),
        ]
    }));
    text + &table(&rows)
}
