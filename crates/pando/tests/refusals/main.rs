//! Refused connections and commands, in the server's log and on the command line. Also mounts that
//! cannot be unmounted, or not in the expected way.

#[path = "../common/mod.rs"]
mod common;
mod log;
mod lost;
mod newcomer;
mod servers;
mod suspended;
mod umount;
mod unprivileged;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::all;
use common::site::Site;
use pando_keys::{KeyRole, KeysFolder, Wanted};
use pando_server::Folder;

/// Issues a key of a volume, as its owner does.
fn key(volume: &Path, role: KeyRole, file: &Path) -> PathBuf {
    let id = Folder::new(volume).unwrap().read().unwrap().id();
    let keys = KeysFolder::open(&volume.join("keys"), id).unwrap();
    let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
    let (read_only, squash, addresses) = (false, None, Vec::new());
    let wanted = Wanted { role, name, read_only, squash, days: 365, addresses };
    keys.issue(&keys.authority(None).unwrap(), &wanted).unwrap().write(file).unwrap();
    file.to_owned()
}

/// A server that listens for other machines, and a mount that has connected over TCP.
struct Guarded {
    site: Site,
    key: PathBuf,
    address: String,
}

impl Guarded {
    fn new() -> Self {
        let mut site = Site::new(&[], &[]);
        site.serve("all", &["--listen", "127.0.0.1:0"]);
        let key = key(&site.folder, KeyRole::Client, &site.scratch().join("ada.pem"));
        let address = site.tcp();
        let path = site.scratch().join("mount");
        site.mount_at(address.as_ref(), path, &["--key", key.to_str().unwrap()]);
        Self { site, key, address }
    }

    /// Checks that all shards serve the mount.
    fn others_go_on(&self) {
        for number in 0..8 {
            let dir = self.site.at(0, &format!("dir-{number}"));
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("file"), "text").unwrap();
            assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "text");
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

/// Checks that the process ended with this code, and printed one line that has these words.
fn assert_said(output: &Output, code: i32, words: &[&str]) {
    let said = if code == 0 { &output.stdout } else { &output.stderr };
    let said = String::from_utf8_lossy(said);
    let lines: Vec<_> = said.lines().collect();
    assert!(output.status.code() == Some(code) && lines.len() == 1, "{}", all(output));
    assert!(code == 0 || said.starts_with("pando: "), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
}
