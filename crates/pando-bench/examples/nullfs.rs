//! Mounts a null file system, and measures it if asked:
//! `nullfs PATH [--threads N] [--clone-fd] [--timeout SECONDS] [--no-flush] [--bench FILES [--workers N] [--own]]`.
//! Without `--bench` it stays until it is unmounted.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pando_bench::mount_bench::{self, Config, WorkerKind};
use pando_bench::nullfs::{self, Behaviour};
use pando_fuse::Options;

fn main() -> io::Result<()> {
    mount_bench::become_worker_if_asked();
    let mut options = Options { source: "nullfs".to_owned(), ..Options::default() };
    let mut behaviour = Behaviour::default();
    let (mut path, mut files, mut workers, mut own) = (None::<PathBuf>, None, 1, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> io::Result<u64> {
            let bad = || io::Error::other(format!("{argument} needs a number"));
            arguments.next().ok_or_else(bad)?.parse().map_err(|_| bad())
        };
        match argument.as_str() {
            "--threads" => options.threads = number()? as usize,
            "--clone-fd" => options.clone_fd = true,
            "--timeout" => {
                options.entry_timeout = Duration::from_secs(number()?);
                options.attr_timeout = options.entry_timeout;
            }
            "--no-flush" => behaviour.no_flush = true,
            "--bench" => files = Some(number()?),
            "--workers" => workers = number()? as u32,
            "--own" => own = true,
            other => path = Some(other.into()),
        }
    }
    let path = path.ok_or_else(|| io::Error::other("where to? give a directory"))?;
    let mounted = nullfs::mount(&path, &options, behaviour)?;
    let Some(files) = files else { return mounted.wait() };
    let report = mount_bench::run(&Config {
        path,
        files_per_worker: files / u64::from(workers),
        workers,
        kind: WorkerKind::Process,
        own_directories: own,
    })?;
    println!("{}", report.to_json());
    mounted.unmount().map_err(|(error, _)| error)
}
