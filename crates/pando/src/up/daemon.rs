//! In the background: this program starts itself once more, and waits for its word over a pipe.
//!
//! ```text
//! pando up -d ──spawns──► pando up --background    stdin: none   stdout: pipe to the parent   stderr: FOLDER/run/log
//!      ◄── one line: ready, or why not ──
//! exits                    goes on, with stdout to the log as well
//! ```

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use pando_server::Folder;
use serde::{Deserialize, Serialize};

use super::{bring_up, open_or_format, stop};
use crate::cli::UpArgs;
use crate::failure::Failure;
use crate::output;

/// What the background process says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Ready(serde_json::Value),
    Failed(Failure),
}

/// The parent's part.
pub fn start(args: &UpArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    // Here, not there: it makes the folder of the log, and what it says is for the user's eyes.
    open_or_format(&folder, args.shards)?;
    let log_path = folder.log();
    let log =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path).map_err(
            |error| Failure::plain(format!("cannot write {}: {error}", log_path.display())),
        )?;
    let own = std::env::current_exe()
        .map_err(|error| Failure::plain(format!("cannot find this program: {error}")))?;
    let arguments = std::env::args_os().skip(1).filter(|argument| !is_detach(argument));
    let mut child = Command::new(own)
        .args(arguments)
        .arg("--background")
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
            announce(args, &folder, &summary);
            Ok(ExitCode::SUCCESS)
        }
        Ok(Word::Failed(failure)) => Err(failure),
        Err(_) => {
            let how = child.wait().map_or_else(|error| error.to_string(), |s| s.to_string());
            let why = read.err().map(|error| format!(", {error}")).unwrap_or_default();
            Err(Failure::plain(format!(
                "the background process ended before the mount was usable ({how}{why}); its last words are in {}:\n{}",
                log_path.display(),
                tail(&log_path)
            )))
        }
    }
}

fn announce(args: &UpArgs, folder: &Folder, summary: &serde_json::Value) {
    if args.json {
        return output::json(summary);
    }
    let text = |key: &str| summary[key].as_str().unwrap_or_default().to_owned();
    let shown = folder.path().display();
    output::line(&format!(
        "{shown} is mounted at {} (process {}); `pando down {shown}` unmounts it",
        text("mount"),
        summary["pid"]
    ));
}

/// The child's part.
pub fn serve(args: &UpArgs) -> Result<ExitCode, Failure> {
    // Out of the terminal's reach. Fails only for a leader of a group, which a child is not.
    let _ = rustix::process::setsid();
    match bring_up(args) {
        Err(failure) => {
            eprintln!("pando: {}", failure.message);
            let code = failure.code;
            output::json(&Word::Failed(failure));
            Ok(ExitCode::from(code))
        }
        Ok((running, stops)) => {
            output::json(&Word::Ready(running.summary()));
            // The pipe's reader is about to leave.
            let _ = rustix::stdio::dup2_stdout(std::io::stderr());
            eprintln!(
                "pando: {} is mounted at {}",
                running.folder.path().display(),
                running.mountpoint().display()
            );
            stop::serve_until_stopped(running, &stops)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn is_detach(argument: &std::ffi::OsStr) -> bool {
    argument == "-d" || argument == "--detach"
}

fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}
