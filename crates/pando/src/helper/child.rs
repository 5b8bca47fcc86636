//! Runs a command of `pando` for a helper, and gives its end in codes of mount(8).

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::console::output::say;

/// What mount(8) and umount(8) expect of a helper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    Done = 0,
    /// The command line is wrong.
    Usage = 1,
    /// The system refused what the helper itself needs.
    System = 2,
    /// Nothing was mounted, or nothing was unmounted.
    Failed = 32,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Parses the command line of a helper. `Err`: it is over, since help was printed or the line is
/// wrong.
pub fn parse<T: Parser>(arguments: &[impl AsRef<OsStr>]) -> Result<T, Code> {
    T::try_parse_from(arguments.iter().map(AsRef::as_ref)).map_err(|error| {
        let _ = error.print();
        if error.use_stderr() { Code::Usage } else { Code::Done }
    })
}

/// Enters the mount namespace that mount(8) names by `-N`.
pub fn enter(namespace: Option<&Path>) -> Result<(), Code> {
    let Some(path) = namespace else { return Ok(()) };
    let enter = || -> std::io::Result<()> {
        let file = File::open(path)?;
        Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Mount))?)
    };
    enter().map_err(|error| {
        say!("cannot enter the mount namespace {}: {error}", path.display());
        Code::System
    })
}

/// Runs `pando` with these arguments. Its failures are on standard error, what it did on standard
/// output. The latter is shown only if the user asks for that.
pub fn pando(arguments: &[impl AsRef<OsStr>], is_verbose: bool) -> Code {
    let run = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0("pando").args(arguments).stdin(Stdio::null());
        if !is_verbose {
            command.stdout(Stdio::null());
        }
        command.status()
    };
    match run().map(|status| status.code()) {
        Ok(Some(0)) => Code::Done,
        Ok(Some(2)) => Code::Usage,
        Ok(_) => Code::Failed,
        Err(error) => {
            say!("cannot start this program once more: {error}");
            Code::System
        }
    }
}
