//! Arguments of `pando bench`, and their help.

use std::path::PathBuf;

use clap::Args;

use crate::console::number::number;

/// Measure a folder of a mount: small files, a listing, large files
///
/// The command works in a new folder below PATH, checks what it reads, and removes the folder in
/// the end. It creates, writes, stats, lists, reads and removes small files. Then each thread
/// writes and reads a large file. Before reads it asks the kernel to drop its cache of the files.
/// Any file system can be measured, to compare.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando bench ~/tree
  pando bench ~/tree --threads 8 --files 50000 --large 0     only small files, eight at a time
  pando bench /var/tmp --json                                the disk, for a script")]
pub struct BenchArgs {
    /// Folder on a mount, or on any other file system
    pub path: PathBuf,
    /// Number of small files of all threads together
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::<u64>(1..=10_000_000))]
    pub files: u64,
    /// Size of each small file, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = number::<u32>(0..=16 << 20))]
    pub file_size: u32,
    /// Size of each thread's large file, in MiB; 0: none
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = number::<u32>(0..=1 << 20))]
    pub large: u32,
    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1..=256))]
    pub threads: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
