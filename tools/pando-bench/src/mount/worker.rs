//! Workers, and the messages between a worker and its master. Messages are lines of JSON, except
//! that inode numbers follow in their memory format.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::{Workers, calls};
use crate::{Phase, Workload, names};

/// The task of one worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) directory: PathBuf,
    pub(super) client: u32,
    pub(super) workload: Workload,
}

/// An order to a worker. The worker answers `Run` with `Done`, and any other order with `Ready`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Begin(Task),
    /// The inode numbers of all files follow the line, 8 bytes each, in the order of the files. The
    /// field is their count.
    Inos(usize),
    Prepare(Phase),
    Run(Phase),
}

/// An answer from a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Ready,
    Progress(u64),
    Done {
        operations: u64,
        buckets: Vec<(u64, u64)>,
    },
    Failed(String),
    /// The worker has ended. Its reader reports this; the worker itself does not send it.
    Gone,
}

/// A worker as its master sees it. Dropping it ends the worker.
pub(super) struct Worker {
    words: Option<Words>,
    life: Life,
    reader: Option<JoinHandle<()>>,
}

enum Words {
    Process(ChildStdin),
    Thread(io::PipeWriter),
}

enum Life {
    Process(Child),
    Thread(Option<JoinHandle<()>>),
}

impl Worker {
    /// Starts a worker. Its answers go to `answers`, with its client number.
    pub(super) fn start(
        client: u32,
        kind: Workers<'_>,
        answers: Sender<(u32, Answer)>,
    ) -> io::Result<Self> {
        match kind {
            Workers::Processes(command) => {
                let mut child = command()?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                let words = child.stdin.take().map(Words::Process);
                let stdout = child.stdout.take();
                let mut worker = Self { words, life: Life::Process(child), reader: None };
                if let Some(stdout) = stdout {
                    worker.listen(client, stdout, answers)?;
                }
                Ok(worker)
            }
            Workers::Threads => {
                let (orders, words) = io::pipe()?;
                let (told, mut say) = io::pipe()?;
                let name = format!("bench-{client}");
                let thread = std::thread::Builder::new().name(name).spawn(move || {
                    // The master notices the end by the closed pipe.
                    let _ = serve(orders, &mut say);
                })?;
                let (words, life) = (Some(Words::Thread(words)), Life::Thread(Some(thread)));
                let mut worker = Self { words, life, reader: None };
                worker.listen(client, told, answers)?;
                Ok(worker)
            }
        }
    }

    fn listen(
        &mut self,
        client: u32,
        from: impl Read + Send + 'static,
        answers: Sender<(u32, Answer)>,
    ) -> io::Result<()> {
        let listen = move || {
            for line in BufReader::new(from).lines() {
                let parse = |line: String| {
                    serde_json::from_str(&line).unwrap_or_else(|_| {
                        Answer::Failed(format!(
                            "the program that was started as a worker says: {line}"
                        ))
                    })
                };
                if answers.send((client, line.map_or(Answer::Gone, parse))).is_err() {
                    return;
                }
            }
            let _ = answers.send((client, Answer::Gone));
        };
        let name = format!("bench-hear-{client}");
        self.reader = Some(std::thread::Builder::new().name(name).spawn(listen)?);
        Ok(())
    }

    pub(super) fn tell(&mut self, order: &Order) -> io::Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.write(&line)
    }

    pub(super) fn tell_numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.words {
            Some(Words::Process(words)) => words.write_all(bytes),
            Some(Words::Thread(words)) => words.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A thread notices the closed channel, and ends after its present order.
        self.words = None;
        match &mut self.life {
            Life::Process(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Life::Thread(thread) => {
                thread.take().map(JoinHandle::join);
            }
        }
        self.reader.take().map(JoinHandle::join);
    }
}

/// Does the work of a process that was started as a worker. It reads orders from standard input and
/// writes answers to standard output. It returns when its master closes the pipe. The kernel kills
/// it if its master dies.
pub fn serve_process() -> io::Result<()> {
    let hang_up = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(hang_up)?;
    serve(io::stdin(), &mut io::stdout())
}

fn serve(orders: impl Read, answers: &mut impl Write) -> io::Result<()> {
    let mut orders = BufReader::new(orders);
    let mut say = |answer: &Answer| {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        answers.write_all(&line)?;
        answers.flush()
    };
    let (mut task, mut inos, mut order) = (None, Vec::new(), Vec::new());
    let mut line = String::new();
    loop {
        line.clear();
        if orders.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match serde_json::from_str(&line)? {
            Order::Begin(begun) => task = Some(begun),
            Order::Inos(count) => inos = read_numbers(&mut orders, count)?,
            Order::Prepare(phase) => {
                let task: &Task = task.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
                order = names::order(&task.workload, task.client, phase);
            }
            Order::Run(phase) => {
                let task: &Task = task.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
                let tell = |done| say(&Answer::Progress(done));
                let answer = match calls::run(task, phase, &order, &inos, tell) {
                    Ok((latencies, operations)) => {
                        Answer::Done { operations, buckets: latencies.buckets() }
                    }
                    Err(error) => Answer::Failed(error.to_string()),
                };
                say(&answer)?;
                continue;
            }
        }
        say(&Answer::Ready)?;
    }
}

fn read_numbers(from: &mut impl Read, count: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    from.read_exact(&mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(words.iter().copied().map(u64::from_ne_bytes).collect())
}
