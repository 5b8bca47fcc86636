//! Creates, stats and unlinks empty files below a path: `mount_bench PATH [FILES [WORKERS [own]]]`.

use std::io;

use pando_bench::mount_bench::{self, Config, WorkerKind};

fn main() -> io::Result<()> {
    mount_bench::become_worker_if_asked();
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| io::Error::other("where? give a directory"))?;
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let files: u64 = number(20_000).map_err(io::Error::other)?;
    let workers = number(1).map_err(io::Error::other)?;
    let report = mount_bench::run(&Config {
        path: path.into(),
        files_per_worker: files / workers,
        workers: u32::try_from(workers).map_err(io::Error::other)?,
        kind: WorkerKind::Process,
        own_directories: arguments.next().as_deref() == Some("own"),
    })?;
    println!("{}", report.to_json());
    Ok(())
}
