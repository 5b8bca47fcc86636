//! Counts the requests that the kernel sends to a FUSE server for each operation. The kernel itself
//! counts them.
//!
//! The tracepoint `fuse:fuse_request_send` (Linux 6.11) reports each request's connection and
//! opcode, for any server and any channel (`/dev/fuse`, io_uring). This module uses a tracer
//! instance of its own, so other users' tracing is not disturbed. The tracing file system is
//! mounted without a place in the tree, so it needs no unmount. Only root may do this.
//!
//! Tracing takes time. So requests are counted in a run of their own, whose rates are not reported.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use serde::Serialize;

use crate::mount::{self, Workers};
use crate::report::rounded;
use crate::{BenchError, Phase, Watch, Workload};

const EVENT: &str = "events/fuse/fuse_request_send";
const PREFIX: &str = "pando-bench-";
/// Buffer for the requests of one phase, in KiB for each CPU.
const BUFFER_KILOBYTES: &str = "8192";

/// Requests for each operation, by phase and opcode.
pub type Requests = BTreeMap<&'static str, BTreeMap<String, f64>>;

/// Requests to two servers for the operations of one workload.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RequestPair {
    /// Requests to server A.
    pub a: Requests,
    /// Requests to server B.
    pub b: Requests,
    /// Whether the requests are equal, so that the rates can be compared.
    pub are_equal: bool,
}

impl RequestPair {
    /// Counts the requests to both servers.
    pub fn count(
        a: &Path,
        b: &Path,
        workload: &Workload,
        workers: Workers<'_>,
        watch: &dyn Watch,
    ) -> Result<Self, BenchError> {
        let a = count(a, workload, workers, watch)?;
        let b = count(b, workload, workers, watch)?;
        Ok(Self { are_equal: are_equal(&a, &b), a, b })
    }
}

/// Difference in GETATTRs for each operation that still counts as equal. A directory's attributes
/// are valid for one unit of the kernel's time. So their number depends on the timing.
const GETATTRS_MORE: f64 = 0.5;

fn are_equal(a: &Requests, b: &Requests) -> bool {
    const GETATTR: &str = "GETATTR";
    let getattrs = |of: &BTreeMap<String, f64>| of.get(GETATTR).copied().unwrap_or_default();
    let others = |of: &BTreeMap<String, f64>| {
        let of = of.iter().filter(|(opcode, _)| *opcode != GETATTR);
        of.map(|(opcode, count)| (opcode.clone(), *count)).collect::<BTreeMap<_, _>>()
    };
    a.keys().eq(b.keys())
        && a.values().zip(b.values()).all(|(a, b)| {
            others(a) == others(b) && (getattrs(a) - getattrs(b)).abs() < GETATTRS_MORE
        })
}

/// Runs `workload` in `target`, which must be on a FUSE mount, and counts the requests.
pub fn count(
    target: &Path,
    workload: &Workload,
    workers: Workers<'_>,
    watch: &dyn Watch,
) -> Result<Requests, BenchError> {
    let failed = || BenchError::io("trace the kernel's requests to", target);
    let connection = rustix::fs::minor(fs::metadata(target).map_err(failed())?.dev());
    let tracer = Tracer::start(connection).map_err(failed())?;
    let counting =
        Counting { tracer, watch, now: Mutex::default(), counts: Mutex::new(Ok(BTreeMap::new())) };
    // The first run is not counted. It fills caches, and triggers requests that the kernel sends
    // once for each mount.
    mount::run(target, workload, workers, watch)?;
    mount::run(target, workload, workers, &counting)?;
    let Counting { counts, .. } = counting;
    let counts = counts.into_inner().expect("nobody panics with it").map_err(failed())?;
    let each = counts.into_iter().map(|(phase, counts)| {
        let operations = workload.operations(phase) as f64;
        // A request that comes once in a phase, such as an opendir, does not count for each
        // operation.
        let each = counts.into_iter().filter(|(_, count)| *count > u64::from(workload.clients) * 4);
        let each = each.map(|(opcode, count)| (opcode, rounded(count as f64 / operations, 100.0)));
        (phase.name(), each.collect())
    });
    Ok(each.collect())
}

type Counts = io::Result<BTreeMap<Phase, BTreeMap<String, u64>>>;

/// A watch that counts between the start and the end of each phase.
struct Counting<'a> {
    tracer: Tracer,
    watch: &'a dyn Watch,
    now: Mutex<Option<Phase>>,
    counts: Mutex<Counts>,
}

impl Watch for Counting<'_> {
    fn begin(&self, what: &str, _total: u64) {
        let phase = Phase::ALL.into_iter().find(|phase| phase.name() == what);
        *self.now.lock().expect("nobody panics with it") = phase;
        self.note(self.tracer.clear().map(|()| None));
    }

    fn advance(&self, _done: u64) {}

    fn end(&self) {
        let phase = self.now.lock().expect("nobody panics with it").take();
        let counted = self.tracer.counts();
        self.note(counted.map(|counts| phase.map(|phase| (phase, counts))));
    }

    fn is_interrupted(&self) -> bool {
        self.watch.is_interrupted()
    }
}

impl Counting<'_> {
    fn note(&self, counted: io::Result<Option<(Phase, BTreeMap<String, u64>)>>) {
        let mut counts = self.counts.lock().expect("nobody panics with it");
        match (counted, &mut *counts) {
            (Err(error), Ok(_)) => *counts = Err(error),
            (Ok(counted), Ok(all)) => all.extend(counted),
            (_, Err(_)) => {}
        }
    }
}

/// An instance of the kernel's tracer. Dropping it removes the instance.
struct Tracer {
    instance: PathBuf,
    /// Keeps the file system mounted.
    _mount: OwnedFd,
}

impl Tracer {
    fn start(connection: u32) -> io::Result<Self> {
        let mount = tracing()?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        if !root.join(EVENT).exists() {
            let what = "this kernel has no tracepoint for FUSE requests (Linux 6.11 has)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let instances = root.join("instances");
        remove_dead(&instances);
        let instance = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&instance)?;
        let tracer = Self { instance, _mount: mount };
        tracer.write("buffer_size_kb", BUFFER_KILOBYTES)?;
        tracer.write(&format!("{EVENT}/filter"), &format!("connection == {connection}"))?;
        tracer.write(&format!("{EVENT}/enable"), "1")?;
        Ok(tracer)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.instance.join(file), text)
    }

    fn clear(&self) -> io::Result<()> {
        self.write("trace", "")
    }

    /// Requests since the tracer started, by opcode.
    fn counts(&self) -> io::Result<BTreeMap<String, u64>> {
        let text = fs::read_to_string(self.instance.join("trace"))?;
        let mut counts = BTreeMap::new();
        for opcode in text.lines().filter_map(opcode) {
            *counts.entry(opcode.to_owned()).or_insert(0) += 1;
        }
        Ok(counts)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.write(&format!("{EVENT}/enable"), "0");
        // The kernel removes an instance with all files in it.
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Mounts the tracing file system without a place in the tree.
fn tracing() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Removes instances of processes that were killed.
fn remove_dead(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The opcode of a trace line. `… fuse_request_send: connection 45 req 2 opcode 3 (FUSE_GETATTR)
/// len 56` gives `GETATTR`.
fn opcode(line: &str) -> Option<&str> {
    let (_, event) = line.split_once("fuse_request_send: ")?;
    let (_, opcode) = event.split_once(" opcode ")?;
    let (_, name) = opcode.split_once('(')?;
    let (name, _) = name.split_once(')')?;
    Some(name.strip_prefix("FUSE_").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_read_from_the_trace() {
        for (line, expected) in [
            ("# tracer: nop", None),
            (
                "  cat-12 [001] ..... 1.0: fuse_request_send: connection 45 req 2 opcode 3 (FUSE_GETATTR) len 56 ",
                Some("GETATTR"),
            ),
        ] {
            assert_eq!(opcode(line), expected);
        }
    }

    #[test]
    fn two_servers_are_asked_the_same_but_for_getattrs_that_depend_on_the_time() {
        let of = |counts: &[(&str, f64)]| {
            let counts = counts.iter().map(|&(opcode, count)| (opcode.to_owned(), count));
            Requests::from([("stat", counts.collect())])
        };
        let one = of(&[("LOOKUP", 2.0), ("GETATTR", 1.0)]);
        assert!(are_equal(&one, &of(&[("LOOKUP", 2.0), ("GETATTR", 1.04)])));
        assert!(!are_equal(&one, &of(&[("LOOKUP", 2.0)])));
        assert!(!are_equal(&one, &of(&[("LOOKUP", 2.01), ("GETATTR", 1.0)])));
        assert!(!are_equal(&one, &Requests::new()));
    }
}
