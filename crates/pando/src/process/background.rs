//! Runs a command in the background. The program starts itself once more, and waits on a pipe until
//! the child is ready or has failed.
//!
//! ```text
//! pando … -d ──spawns──► pando … --background    stdin: none   stdout: pipe to the parent   stderr: the log
//!      ◄── one line: ready, or why not ──
//! exits                    goes on, with stdout to the log as well
//! ```

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::Receiver;

use serde::{Deserialize, Serialize};

use super::log::{open_log, tail};
use super::notify::{self, Pulse};
use crate::console::output::{self, say};
use crate::failure::Failure;
use crate::process::signals::Stop;

/// What the background process reports to its parent, as one line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Ready(serde_json::Value),
    Failed(Failure),
}

/// A command that serves until it is stopped, in the background or in the foreground.
pub trait Service: Sized {
    /// Describes the running service as JSON, for scripts.
    fn summary(&self) -> serde_json::Value;
    /// Describes the running service in a line, for people.
    fn greeting(&self) -> String;
    /// Shows that the service is alive, for the watchdog of a service manager.
    fn pulse(&self) -> Pulse;
    /// Serves until a stop arrives, and then shuts down.
    fn serve(self, stops: &Receiver<Stop>) -> Result<(), Failure>;
}

/// Whether a command runs in the background, and how it reports.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// `-d`: the command starts the background process and exits.
    pub detach: bool,
    /// Set in the child that `-d` starts.
    pub background: bool,
    pub json: bool,
    /// File that receives the background process's messages.
    pub log: &'a Path,
}

/// Runs the service in the background or in the foreground. `bring_up` starts it and returns once
/// it is usable.
pub fn run<S: Service>(
    way: Way<'_>,
    bring_up: impl FnOnce() -> Result<(S, Receiver<Stop>), Failure>,
) -> Result<ExitCode, Failure> {
    if way.detach {
        return start(way);
    }
    if way.background {
        return serve(bring_up);
    }
    let (service, stops) = bring_up()?;
    if way.json {
        output::json(&service.summary());
    } else {
        output::line(&format!("{}; Ctrl-C stops it", service.greeting()));
    }
    notify::ready(&service.greeting());
    notify::watch(service.pulse());
    service.serve(&stops)?;
    Ok(ExitCode::SUCCESS)
}

/// The parent: starts the child, waits for its line, and prints it.
fn start(way: Way<'_>) -> Result<ExitCode, Failure> {
    let Way { json, log: log_path, .. } = way;
    let log = open_log(log_path)?;
    let own = std::env::current_exe()
        .map_err(|error| Failure::plain(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(own);
    // The background process is not the one that a service manager has started.
    for variable in notify::VARIABLES {
        command.env_remove(variable);
    }
    let mut child = command
        // A file of this program named `mount.pando` would take itself for mount(8)'s helper.
        .arg0("pando")
        .args(child_arguments(std::env::args_os().skip(1)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| Failure::plain(format!("cannot start the background process: {error}")))?;
    let mut line = String::new();
    let stdout = child.stdout.take().expect("was asked for");
    let read = BufReader::new(stdout).read_line(&mut line);
    match serde_json::from_str(&line) {
        Ok(Word::Ready(summary)) => {
            if json {
                output::json(&summary);
            } else {
                let greeting = summary["greeting"].as_str().unwrap_or_default();
                output::line(&format!("{greeting} (process {})", summary["pid"]));
            }
            Ok(ExitCode::SUCCESS)
        }
        Ok(Word::Failed(failure)) => Err(failure),
        Err(_) => {
            let how = child.wait().map_or_else(|error| error.to_string(), |s| s.to_string());
            let why = read.err().map(|error| format!(", {error}")).unwrap_or_default();
            Err(Failure::plain(format!(
                "the background process ended before it was ready ({how}{why}); its log is {}:\n{}",
                log_path.display(),
                tail(log_path)
            )))
        }
    }
}

/// The child: brings the service up, reports to the parent, and serves.
fn serve<S: Service>(
    bring_up: impl FnOnce() -> Result<(S, Receiver<Stop>), Failure>,
) -> Result<ExitCode, Failure> {
    // Detaches from the terminal. This fails only for the leader of a process group, which a child
    // is not.
    let _ = rustix::process::setsid();
    match bring_up() {
        Err(failure) => {
            say!("{}", failure.message);
            let code = failure.code;
            output::json(&Word::Failed(failure));
            Ok(ExitCode::from(code))
        }
        Ok((service, stops)) => {
            let mut summary = service.summary();
            summary["greeting"] = service.greeting().into();
            output::json(&Word::Ready(summary));
            // The parent is about to exit, so the pipe would break. From now on stdout is the log.
            let _ = rustix::stdio::dup2_stdout(std::io::stderr());
            say!("{}", service.greeting());
            service.serve(&stops)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The parent's arguments for the child: with `--background`, and without `-d`. Arguments after
/// `--` stay, even if they look like options.
fn child_arguments(mut arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut child: Vec<_> = arguments.next().into_iter().collect();
    child.push("--background".into());
    let mut are_options_over = false;
    child.extend(arguments.filter(|argument| {
        are_options_over |= argument == "--";
        are_options_over || !(argument == "-d" || argument == "--detach")
    }));
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_has_the_same_arguments_but_is_told_what_it_is() {
        for (given, expected) in [
            ("up v --mount m -d", "up --background v --mount m"),
            ("mount --detach a b", "mount --background a b"),
            ("mount -d -- a b", "mount --background -- a b"),
            ("mount -d -- -d --detach", "mount --background -- -d --detach"),
        ] {
            let child = child_arguments(given.split(' ').map(OsString::from));
            assert_eq!(child.join(" ".as_ref()), OsString::from(expected));
        }
    }
}
