//! The programs that a run starts: `pando`, and this one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::output::failure::Failure;

/// The program `pando`: the one beside this program, else the one in `$PATH`.
pub fn pando() -> Result<PathBuf, Failure> {
    let beside = this()?.with_file_name("pando");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).map(|folder| folder.join("pando"));
    std::iter::once(beside.clone()).chain(others).find(|program| program.is_file()).ok_or_else(
        || {
            Failure::plain(format!(
                "there is no program `pando`, neither {} nor in $PATH: build it in the same way as \
                 this one (`cargo build --release --package pando`)",
                beside.display()
            ))
        },
    )
}

/// This program.
pub fn this() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::plain(format!("cannot find this program: {error}")))
}

/// The command that starts this program as a worker.
pub fn worker() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("worker");
    Ok(command)
}

/// An option with its value as arguments, or nothing if there is no value.
pub fn option<T: ToString>(
    name: &'static str,
    value: Option<T>,
) -> impl Iterator<Item = OsString> + use<T> {
    value.into_iter().flat_map(move |value| [name.into(), value.to_string().into()])
}
