//! Runs a workload through the kernel, below any directory. Each client is a process of its own.
//!
//! ```text
//!   this process                        worker (this program again, or a thread)
//!     Task ───────────────────────────►   prepares names and order
//!     Run(create) ── to all ──────────►   open(O_CREAT|O_EXCL) + close, each file
//!     ◄───────── Progress … Done ──────   latencies
//!     lists, counts; Inos ────────────►   so that stat knows what is true
//! ```
//!
//! A phase lasts from the first order to the last worker's answer.

mod calls;
mod tree;
mod worker;

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::{BenchError, Latencies, Phase, PhaseReport, Report, Watch, Workload};
use tree::Tree;
pub use worker::serve_process;
use worker::{Answer, Order, Task, Worker};

/// Interval of checks for an interrupt while no answer comes.
const LOOK: Duration = Duration::from_millis(100);

/// What workers are: processes or threads.
#[derive(Clone, Copy)]
pub enum Workers<'a> {
    /// Processes. The closure makes a command whose program calls [`serve_process`].
    Processes(&'a dyn Fn() -> std::io::Result<Command>),
    /// Threads of this process. For tests, which have no program to start.
    Threads,
}

/// Runs all phases in a new directory below `target`, and removes that directory.
pub fn run(
    target: &Path,
    workload: &Workload,
    workers: Workers<'_>,
    watch: &dyn Watch,
) -> Result<Report, BenchError> {
    workload.check()?;
    let tree = Tree::make(target, workload)?;
    // `measure` returns after all workers have ended. So no worker makes files during the removal.
    let result = measure(&tree, workload, workers, watch);
    match (result, tree.clear()) {
        (result, Ok(())) => result,
        (Ok(_), Err(cause)) | (Err(cause), Err(_)) => {
            let left = tree.run_directory().display().to_string();
            Err(BenchError::LeftBehind { cause: Box::new(cause), left })
        }
    }
}

fn measure(
    tree: &Tree,
    workload: &Workload,
    workers: Workers<'_>,
    watch: &dyn Watch,
) -> Result<Report, BenchError> {
    let mut crew = Crew::start(tree, workload, workers, watch)?;
    let mut phases = Vec::new();
    for &phase in &workload.phases {
        phases.push(crew.run(phase)?);
        if matches!(phase, Phase::Create | Phase::Unlink) {
            let inos = tree.census(workload, phase)?;
            if phase == Phase::Create {
                crew.tell_inos(inos)?;
            }
        }
    }
    Ok(Report { workload: workload.clone(), phases })
}

/// All workers of a run. Dropping it ends them.
struct Crew<'a> {
    workers: Vec<Worker>,
    answers: Receiver<(u32, Answer)>,
    workload: &'a Workload,
    watch: &'a dyn Watch,
}

impl<'a> Crew<'a> {
    fn start(
        tree: &Tree,
        workload: &'a Workload,
        kind: Workers<'_>,
        watch: &'a dyn Watch,
    ) -> Result<Self, BenchError> {
        let (sender, answers) = channel();
        let mut crew = Self { workers: Vec::new(), answers, workload, watch };
        for client in 0..workload.clients {
            let worker = Worker::start(client, kind, sender.clone())
                .map_err(|error| failed(client, &error))?;
            crew.workers.push(worker);
            let directory = tree.of(client).to_owned();
            crew.order(
                client,
                &Order::Begin(Task { directory, client, workload: workload.clone() }),
            )?;
        }
        crew.await_ready()?;
        Ok(crew)
    }

    fn order(&mut self, client: u32, order: &Order) -> Result<(), BenchError> {
        self.workers[client as usize].tell(order).map_err(|error| failed(client, &error))
    }

    fn order_all(&mut self, order: &Order) -> Result<(), BenchError> {
        (0..self.workload.clients).try_for_each(|client| self.order(client, order))
    }

    fn tell_inos(&mut self, inos: Vec<Vec<u64>>) -> Result<(), BenchError> {
        for (inos, client) in inos.into_iter().zip(0..) {
            self.order(client, &Order::Inos(inos.len()))?;
            let told = self.workers[client as usize].tell_numbers(&inos);
            told.map_err(|error| failed(client, &error))?;
        }
        self.await_ready()
    }

    fn await_ready(&mut self) -> Result<(), BenchError> {
        for _ in 0..self.workload.clients {
            match self.next()? {
                (_, Answer::Ready) => {}
                (client, _) => return Err(failed(client, &"it spoke out of turn")),
            }
        }
        Ok(())
    }

    fn run(&mut self, phase: Phase) -> Result<PhaseReport, BenchError> {
        self.order_all(&Order::Prepare(phase))?;
        self.await_ready()?;
        let mut progress = vec![0; self.workload.clients as usize];
        let mut latencies = Latencies::default();
        let mut running = self.workload.clients;
        self.watch.begin(phase.name(), self.workload.operations(phase));
        let begun = Instant::now();
        self.order_all(&Order::Run(phase))?;
        while running > 0 {
            let (client, answer) = self.next()?;
            let done = match answer {
                Answer::Progress(done) => done,
                Answer::Done { operations, buckets } => {
                    running -= 1;
                    latencies.add(&Latencies::from_buckets(&buckets));
                    operations
                }
                _ => return Err(failed(client, &"it spoke out of turn")),
            };
            progress[client as usize] = done;
            self.watch.advance(progress.iter().sum());
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.watch.end();
        Ok(PhaseReport::new(phase, progress.iter().sum(), seconds, &latencies))
    }

    /// Waits for the next answer of any worker. Fails if a worker failed.
    fn next(&self) -> Result<(u32, Answer), BenchError> {
        loop {
            if self.watch.is_interrupted() {
                return Err(BenchError::Interrupted);
            }
            match self.answers.recv_timeout(LOOK) {
                Ok((client, Answer::Failed(what))) => return Err(failed(client, &what)),
                // Ctrl-C reaches the workers and this process at the same time.
                Ok((client, Answer::Gone)) if !self.watch.is_interrupted() => {
                    return Err(failed(client, &"the process ended before its work was done"));
                }
                Ok((_, Answer::Gone)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failed(0, &"all processes ended before their work was done"));
                }
            }
        }
    }
}

fn failed(client: u32, what: &dyn std::fmt::Display) -> BenchError {
    BenchError::Worker { client, what: what.to_string() }
}
