//! Mounts a null file system until it is unmounted: `nullfs PATH [--threads N] [--clone-fd]
//! [--timeout SECONDS] [--no-flush]`.
//!
//! `pando-bench metadata PATH --api mount` measures it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pando_bench::nullfs::{self, Behaviour};
use pando_fuse::Options;

fn main() -> io::Result<()> {
    let mut options = Options { source: "nullfs".to_owned(), ..Options::default() };
    let mut behaviour = Behaviour::default();
    let mut path = None::<PathBuf>;
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
            other => path = Some(other.into()),
        }
    }
    let path = path.ok_or_else(|| io::Error::other("where to? give a directory"))?;
    nullfs::mount(&path, &options, behaviour)?.wait()
}
