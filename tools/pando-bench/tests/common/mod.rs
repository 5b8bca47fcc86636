//! What tests of the program share.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rustix::mount::{UnmountFlags, unmount};

/// The program under test.
pub fn bench() -> Command {
    own(Command::new(env!("CARGO_BIN_EXE_pando-bench")))
}

/// The program `pando`, which the program under test starts, too: cargo puts both into one folder.
/// `cargo test --workspace` builds both.
pub fn pando() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_pando-bench")).with_file_name("pando");
    assert!(program.exists(), "build it first, by `cargo build --package pando`: {program:?}");
    own(Command::new(program))
}

/// Keeps a command's sockets and keys apart from those of the user who runs the tests.
fn own(mut command: Command) -> Command {
    command.env("PANDO_RUN", Path::new(env!("CARGO_TARGET_TMPDIR")).join("run"));
    command.env("XDG_CONFIG_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("config"));
    command
}

/// A folder that is removed at the end, with everything that is mounted in it.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let root = self.folder.path().to_owned();
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let inside = list.lines().filter_map(|line| line.split(' ').nth(4));
        let inside = inside.filter(|path| Path::new(path).starts_with(&root));
        for path in inside.collect::<Vec<_>>().into_iter().rev() {
            let _ = unmount(path, UnmountFlags::DETACH);
        }
    }
}

/// Exit status and both outputs of a process, as text.
pub fn all(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
