//! Arguments of `pando bench`, and their help.

use std::path::PathBuf;

use clap::Args;

use crate::console::number::number;

/// Measure a folder of a mount: small files, a listing, large files
///
/// Works in a new folder below PATH that is removed in the end, and checks what it reads. Small
/// files are created and written, looked at, listed, read and removed; then each thread writes and
/// reads a large file. What is read is no longer in the kernel's memory, as far as the kernel lets
/// go of it. Any file system can be measured so, to compare.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando bench ~/tree
  pando bench ~/tree --threads 8 --files 50000 --large 0     only small files, eight at a time
  pando bench /var/tmp --json                                the disk, for a script")]
pub struct BenchArgs {
    /// A folder on the mount
    pub path: PathBuf,
    /// Small files, of all threads together
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::<u64>(1..=10_000_000))]
    pub files: u64,
    /// Bytes of each small file
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = number::<u32>(0..=16 << 20))]
    pub file_size: u32,
    /// MiB of each thread's large file; 0: none
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = number::<u32>(0..=1 << 20))]
    pub large: u32,
    /// Threads that work at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1..=256))]
    pub threads: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
