//! Runs a command in the background. The program starts itself once more, and waits on a pipe until
//! the child is ready or has failed.
//!
//! ```text
//! pando … -d ──spawns──► pando … --background    stdin: none   stdout: pipe to the parent   stderr: the log
//!      ◄── one line: ready, or why not ──
//! exits                    goes on, with stdout to the log as well
//! ```

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::Receiver;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output;
use crate::signals::Stop;

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
    service.serve(&stops)?;
    Ok(ExitCode::SUCCESS)
}

/// The parent: starts the child, waits for its line, and prints it.
fn start(way: Way<'_>) -> Result<ExitCode, Failure> {
    let Way { json, log: log_path, .. } = way;
    let log = open_log(log_path)?;
    let own = std::env::current_exe()
        .map_err(|error| Failure::plain(format!("cannot find this program: {error}")))?;
    let mut child = Command::new(own)
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
                "the background process ended before it was ready ({how}{why}); its last words are in {}:\n{}",
                log_path.display(),
                tail(log_path)
            )))
        }
    }
}

/// Opens the log for appending. It does not follow a symbolic link, since the link's target may not
/// be a log.
fn open_log(path: &Path) -> Result<File, Failure> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    let opened = options.create(true).append(true).mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|error| {
        let why = if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            "it is a symbolic link; name the file itself, or remove the link".to_owned()
        } else {
            error.to_string()
        };
        Failure::plain(format!("cannot write the log {}: {why}", path.display()))
    })?;
    check_own(path, &file)?;
    Ok(file)
}

/// Refuses a log that another user owns, or whose folder lets other users replace it. The log's
/// text is for this user alone.
fn check_own(path: &Path, file: &File) -> Result<(), Failure> {
    let shown = path.display();
    let failed = |error| Failure::plain(format!("cannot look at the log {shown}: {error}"));
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = std::fs::metadata(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    let is = file.metadata().map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    let why = if is.uid() != own && is.uid() != 0 {
        format!("it belongs to user {}: name another file, or have it removed", is.uid())
    } else if is.is_file() && is.mode() & 0o022 != 0 {
        format!("others may write it (its mode is {:o}): `chmod go-w {shown}`", is.mode() & 0o7777)
    } else if folder.mode() & 0o1002 == 0o002 {
        "others may write to its folder: name another one".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::plain(format!("cannot write the log {shown}: {why}")))
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
            eprintln!("pando: {}", failure.message);
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
            eprintln!("pando: {}", service.greeting());
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

fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
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

    #[test]
    fn a_log_is_no_link() {
        let temp = tempfile::tempdir().unwrap();
        let (file, link) = (temp.path().join("log"), temp.path().join("link"));
        open_log(&file).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let error = open_log(&link).unwrap_err().message;
        assert!(error.contains("symbolic link"), "{error}");
    }

    #[test]
    fn a_log_is_in_no_folder_of_all_and_nobody_elses() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        let log = temp.path().join("log");
        open_log(&log).unwrap();
        assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o600);
        set(&log, 0o622).unwrap();
        let error = open_log(&log).unwrap_err().message;
        assert!(error.contains("others may write it"), "{error}");
        set(&log, 0o644).unwrap();
        for (mode, is_good) in [(0o777, false), (0o1777, true), (0o775, true), (0o700, true)] {
            set(temp.path(), mode).unwrap();
            assert_eq!(open_log(&log).is_ok(), is_good, "{mode:o}");
        }
        // `chown` needs root, as mounts do.
        std::os::unix::fs::chown(&log, Some(1234), None).unwrap();
        let error = open_log(&log).unwrap_err().message;
        assert!(error.contains("user 1234"), "{error}");
    }
}
