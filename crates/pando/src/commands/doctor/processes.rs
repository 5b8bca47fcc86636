//! What processes of Pando answer, and what the kernel tells of them.

use std::path::{Path, PathBuf};

use pando_server::admin::Answer;
use pando_server::{Folder, Superblock};
use serde::Serialize;

use crate::admin::asking::{self, SOON};
use crate::admin::mount;
use crate::admin::protocol::Query;
use crate::commands::status::ask_all;
use crate::volume::keys;
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// The status of a mount, with all its counts and latencies.
pub fn mounted(root: &Path, volume: &str) -> Result<String, String> {
    match mount::ask(root, volume, &Query::Status, SOON) {
        Ok(Answer::Ok(told)) => pretty(&told),
        Ok(Answer::Error(why)) => Err(why),
        Err(failure) => Err(failure.message),
    }
}

/// The status of a `pando up`.
pub fn whole(folder: &Folder) -> Result<String, String> {
    match asking::ask(&folder.socket(), &Query::Status, SOON) {
        Ok(Answer::Ok(told)) => pretty(&told),
        Ok(Answer::Error(why)) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

/// The status of all servers of a volume. Those that do not answer are named in it.
pub fn servers(named: &Named, key: Option<&PathBuf>) -> Result<String, String> {
    let keys = keys::find(named, key).map_err(|failure| failure.message)?;
    let questioner = Questioner::new(named, keys).map_err(|failure| failure.message)?;
    let holders = match named {
        Named::Folder(folder, _) => folder.shard_holders().map_err(|error| error.to_string())?,
        Named::Servers(_) => Vec::new(),
    };
    pretty(&ask_all(named, &questioner, &holders))
}

/// What a superblock says, but for its secrets.
pub fn configuration(folder: &Folder, superblock: &Superblock) -> Result<String, String> {
    let Superblock { uuid, format_version, shards, created_nanos, .. } = superblock;
    let Superblock { compatible_features, incompatible_features, algorithms, .. } = superblock;
    Ok(format!(
        "{}\nvolume {uuid}, made with {shards} shards, {} s after 1970\nformat {format_version}, \
         features {compatible_features:?}, needed {incompatible_features:?}\n{algorithms:?}\n",
        folder.path().display(),
        created_nanos / 1_000_000_000,
    ))
}

/// What the kernel tells of a process: its words, limits and state. Its environment is left out.
pub fn process(pid: &str) -> Result<String, String> {
    let read = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        std::fs::read(&path).map_err(|error| format!("{path}: {error}"))
    };
    let words: Vec<_> = read("cmdline")?
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let mut text = format!("{}\n", words.join(" "));
    for name in ["limits", "status"] {
        text.push_str(&String::from_utf8_lossy(&read(name)?));
    }
    Ok(text)
}

fn pretty(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string())
}
