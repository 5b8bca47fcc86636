//! Workers: threads, or processes that are told what to do on standard input and answer on standard output.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::WorkerKind;
use super::phase::{Phase, Task};

/// Set in a worker's environment: directory, worker, files are its arguments.
const ROLE: &str = "PANDO_MOUNT_BENCH_WORKER";

pub(super) enum Worker {
    Process { child: Child, words: ChildStdin, answers: BufReader<ChildStdout> },
    Thread { words: Sender<Phase>, answers: Receiver<io::Result<()>> },
}

impl Worker {
    pub(super) fn start(kind: WorkerKind, task: Task) -> io::Result<Self> {
        match kind {
            WorkerKind::Process => start_process(&task),
            WorkerKind::Thread => start_thread(task),
        }
    }

    pub(super) fn begin(&mut self, phase: Phase) -> io::Result<()> {
        match self {
            Self::Process { words, .. } => writeln!(words, "{}", phase.word()),
            Self::Thread { words, .. } => words.send(phase).map_err(io::Error::other),
        }
    }

    pub(super) fn finish(&mut self, phase: Phase) -> io::Result<()> {
        match self {
            Self::Process { answers, .. } => {
                let mut line = String::new();
                answers.read_line(&mut line)?;
                match line.trim_end() {
                    "done" => Ok(()),
                    "" => Err(io::Error::other(format!("a worker died in phase {}", phase.word()))),
                    error => Err(io::Error::other(error.to_owned())),
                }
            }
            Self::Thread { answers, .. } => answers.recv().map_err(io::Error::other)?,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Self::Process { child, .. } = self {
            // It has nothing more to do; whatever it was at is of no use to anyone.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start_process(task: &Task) -> io::Result<Worker> {
    let mut child = Command::new(std::env::current_exe()?)
        .env(ROLE, "1")
        .arg(&task.directory)
        .arg(task.worker.to_string())
        .arg(task.files.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(words), Some(answers)) => {
            let mut answers = BufReader::new(answers);
            let mut line = String::new();
            answers.read_line(&mut line)?;
            let worker = Worker::Process { child, words, answers };
            if line.trim_end() == "ready" {
                return Ok(worker);
            }
            Err(io::Error::other(
                "this program does not become a worker: it must call become_worker_if_asked first",
            ))
        }
        _ => Err(io::Error::other("a worker has no pipes")),
    }
}

fn start_thread(task: Task) -> io::Result<Worker> {
    let (words, orders) = channel::<Phase>();
    let (results, answers) = channel();
    std::thread::Builder::new().name(format!("bench-{}", task.worker)).spawn(move || {
        for phase in orders {
            if results.send(task.run(phase)).is_err() {
                return;
            }
        }
    })?;
    Ok(Worker::Thread { words, answers })
}

/// Never returns in a process that was started as a worker; else does nothing. To be called first thing in `main`.
pub fn become_worker_if_asked() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let failed = work().is_err();
    std::process::exit(i32::from(failed));
}

fn work() -> io::Result<()> {
    let bad = || io::Error::other("bad arguments for a worker");
    let mut arguments = std::env::args_os().skip(1);
    let directory = arguments.next().ok_or_else(bad)?.into();
    let mut number = || -> io::Result<u64> {
        let text = arguments.next().and_then(|text| text.into_string().ok()).ok_or_else(bad)?;
        text.parse().map_err(|_| bad())
    };
    let worker = u32::try_from(number()?).map_err(|_| bad())?;
    let task = Task { directory, worker, files: number()? };
    println!("ready");
    for line in io::stdin().lines() {
        let phase = Phase::from_word(&line?).ok_or_else(bad)?;
        match task.run(phase) {
            Ok(()) => println!("done"),
            Err(error) => println!("{}", error.to_string().replace('\n', " ")),
        }
    }
    Ok(())
}
