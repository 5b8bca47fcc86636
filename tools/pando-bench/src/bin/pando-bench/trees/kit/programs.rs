//! Runs programs, and takes their time. No program runs longer than the limit, or on after a
//! signal.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pando_bench::{BenchError, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::output::failure::Failure;
use crate::output::progress::Progress;

/// Interval of looks for a signal while a program runs.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// A killed program may wait this long for a file system that does not answer. Then it is left.
const DEAD_WITHIN: Duration = Duration::from_secs(40);
/// So much of what a program complains about is shown.
const COMPLAINTS_MAX: u64 = 2_000;

pub struct Programs<'a> {
    watch: &'a Progress,
    limit: Duration,
}

/// A program that has ended.
pub struct Ran {
    pub seconds: f64,
    output: File,
}

impl Ran {
    /// Number of lines of its standard output.
    pub fn lines(mut self) -> Result<u64, Failure> {
        let failed = |error| Failure::plain(format!("cannot read a program's output: {error}"));
        let (mut lines, mut buffer) = (0, vec![0; 1 << 16]);
        self.output.rewind().map_err(failed)?;
        loop {
            let length = self.output.read(&mut buffer).map_err(failed)?;
            if length == 0 {
                return Ok(lines);
            }
            lines += buffer[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }

    /// Its standard output, which must be short.
    pub fn text(self) -> String {
        text(self.output)
    }
}

impl<'a> Programs<'a> {
    pub fn new(watch: &'a Progress, limit: Duration) -> Self {
        Self { watch, limit }
    }

    /// Fails if the user has interrupted the run.
    pub fn go_on(&self) -> Result<(), Failure> {
        if self.watch.is_interrupted() { Err(BenchError::Interrupted.into()) } else { Ok(()) }
    }

    pub fn is_interrupted(&self) -> bool {
        self.watch.is_interrupted()
    }

    /// A program that works in `folder`, with the same settings for every user.
    pub fn command(program: &str, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Runs a program that must succeed.
    pub fn run(&self, command: &mut Command) -> Result<Ran, Failure> {
        self.run_with(command, &[0])
    }

    /// Runs a program to its end. It must end with one of these codes.
    pub fn run_with(&self, command: &mut Command, codes: &[i32]) -> Result<Ran, Failure> {
        self.go_on()?;
        let shown = shown(command);
        let failed = |why: &dyn std::fmt::Display| Failure::plain(format!("{shown}: {why}"));
        // Outputs go to files without names: a program that writes to a pipe would have to wait.
        let file = || tempfile::tempfile().map_err(|error| failed(&error));
        let (output, complaints) = (file()?, file()?);
        let to = |file: &File| file.try_clone().map(Stdio::from).map_err(|error| failed(&error));
        command.stdout(to(&output)?).stderr(to(&complaints)?).process_group(0);
        let begun = Instant::now();
        let child = command.spawn().map_err(|error| failed(&error))?;
        let mut running = Running(Some(child));
        let ended = running.wait(self.limit, || self.watch.is_interrupted());
        let seconds = begun.elapsed().as_secs_f64();
        let status = ended.map_err(|error| failed(&error))?;
        self.go_on()?;
        let Some(status) = status else {
            return Err(failed(&format!("not done after {} s", self.limit.as_secs_f64())));
        };
        match status.code() {
            Some(code) if codes.contains(&code) => Ok(Ran { seconds, output }),
            _ => Err(failed(&format!("{status}: {}", text(complaints).trim()))),
        }
    }
}

/// The beginning of a file.
fn text(mut file: File) -> String {
    let mut bytes = Vec::new();
    let _ = file.rewind().and_then(|()| file.take(COMPLAINTS_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The words of a command, cut where a list of files may follow.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args().take(6));
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A program and its children, all of which are killed if it has not ended.
struct Running(Option<Child>);

impl Running {
    /// Waits for the end. `None`: it took too long, or `is_over` is true.
    fn wait(
        &mut self,
        limit: Duration,
        is_over: impl Fn() -> bool,
    ) -> std::io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.0 else { return Ok(None) };
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let begun = Instant::now();
        while begun.elapsed() < limit && !is_over() {
            if has_ended(&process)? {
                let status = child.wait()?;
                self.0 = None;
                return Ok(Some(status));
            }
        }
        Ok(None)
    }
}

/// Waits for a moment for the end of a process.
fn has_ended(process: &OwnedFd) -> std::io::Result<bool> {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    match poll(&mut fds, Some(&LOOK)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        // It leads a group of its own, which has its children, too.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < DEAD_WITHIN {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
