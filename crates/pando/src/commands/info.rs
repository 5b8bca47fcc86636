//! `pando info`: shows what the volume keeps of one path.

use crate::admin::locate;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pando_server::admin::Answer;
use pando_server::inspect::{DirectoryInfo, FileInfo, Info};
use pando_server::superblock::hex;

use crate::admin::asking::SOON;
use crate::admin::locate::Located;
use crate::admin::mount;
use crate::admin::protocol::{Query, Told};
use crate::console::output;
use crate::console::text::{count, table};
use crate::failure::Failure;

/// Show where a file or directory of a mounted volume is kept
///
/// Of a directory: its id, and the index, depth, shard and number of entries of each partition. Of
/// a file: its shard, and the objects that hold its data.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  pando info ~/tree/photos\n  pando info ~/tree/notes.txt --json"
)]
pub struct InfoArgs {
    /// Path on a mount; a symbolic link is not followed
    pub path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &InfoArgs) -> Result<ExitCode, Failure> {
    let Located { path, root, volume, names } = locate::locate(&args.path)?;
    let names = names.iter().map(|name| hex(name.as_bytes()));
    let query = Query::Info { names: names.collect() };
    let info = match mount::ask(&root, &volume, &query, SOON)? {
        Answer::Ok(Told::Info(info)) => info,
        Answer::Ok(_) => return Err(Failure::unexpected("the process")),
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
