//! Who is turned away, and what of: in the log of the server, and on the command line. And what cannot be unmounted, or not as one
//! might expect.

#[path = "../common/mod.rs"]
mod common;
mod log;
mod servers;
mod umount;
mod words;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::all;
use common::site::Site;

const SECRET: &str = "correct horse battery";

/// A file that only its owner may read.
fn secret_file(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    path
}

/// A server that demands the secret of whoever comes over TCP, and a mount that came so.
struct Guarded {
    site: Site,
    secret: PathBuf,
    address: String,
}

impl Guarded {
    fn new() -> Self {
        let mut site = Site::new(&[], &[]);
        let secret = secret_file(site.scratch(), "secret", SECRET);
        let shown = secret.to_str().unwrap();
        site.serve("all", &["--listen", "127.0.0.1:0", "--secret", shown]);
        let address = site.tcp();
        let path = site.scratch().join("mount");
        site.mount_at(address.as_ref(), path, &["--secret", shown]);
        Self { site, secret, address }
    }

    /// All shards serve the mount.
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

/// It ended by itself with this code, and said what the words are of in one line.
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
