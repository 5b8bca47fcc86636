//! A process that serves something for a run, and ends with it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::program;
use crate::output::failure::Failure;

/// Time that a process has to end in order.
const END_FOR: Duration = Duration::from_secs(15);

/// A process that ends with this one. Dropping it ends the process.
pub struct Process(Child);

impl Process {
    /// Starts a program with `words`. It is up when it prints its first line.
    pub fn start(program: &Path, words: &[OsString]) -> Result<(Self, Value), Failure> {
        let failed =
            |error: std::io::Error| Failure::plain(format!("cannot start a server: {error}"));
        let child = Command::new(program::this()?)
            .args(["leashed", "--"])
            .arg(program)
            .args(words)
            // Ctrl-C reaches only this process, which ends the server once no worker uses its mount
            // any more.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut process = Self(child);
        let stdout = process.0.stdout.take().expect("was asked for");
        let stderr = process.0.stderr.take().expect("was asked for");
        // A thread reads standard error to its end, so that the process never blocks on a full
        // pipe.
        let complaints = std::thread::Builder::new()
            .name("bench-complaints".to_owned())
            .spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).collect::<Vec<_>>())
            .map_err(failed)?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        if said.is_object() && said.get("error").is_none() {
            return Ok((process, said));
        }
        drop(process);
        let why = complaints.join().unwrap_or_default().join("\n");
        Err(Failure::plain(format!("cannot start a server: {why}")))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let begun = Instant::now();
        let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_running(&mut self.0)) {
            let _ = kill_process(pid, Signal::TERM);
        }
        while is_running(&mut self.0) && begun.elapsed() < END_FOR {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Replaces this process by another program that the kernel ends when the parent dies.
pub fn leashed(words: &[OsString]) -> Result<ExitCode, Failure> {
    let (program, words) =
        words.split_first().ok_or_else(|| Failure::plain("no program to start"))?;
    let failed = |error: std::io::Error| {
        Failure::plain(format!("cannot start {}: {error}", Path::new(program).display()))
    };
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|errno| failed(errno.into()))?;
    Err(failed(Command::new(program).args(words).exec()))
}
