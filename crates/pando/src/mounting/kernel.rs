//! Arguments that say what the kernel may do by itself.

use std::time::Duration;

use clap::Args;

/// What the kernel may do by itself.
#[derive(Args, Debug, Clone, Copy)]
pub struct KernelArgs {
    /// Seconds for which the kernel may take a file's or directory's attributes for granted
    ///
    /// So much later do programs here see a size, time, mode or owner that was changed through
    /// another mount; after that much time at most. A change of who may do what counts at once
    /// where it refuses something. 0: never later.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub attr_timeout: Duration,
    /// Seconds for which the kernel may take it for granted that a name leads to the file it led to
    /// last
    ///
    /// So much later do programs here see that a file was renamed, removed or replaced through
    /// another mount: opening its old name finds the old file. 0: never later. Names of directories
    /// are asked for each time.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub entry_timeout: Duration,
    /// Let setuid and setgid programs run as their owner or group; root only [default: as if these
    /// bits were not set]
    #[arg(long)]
    pub suid: bool,
    /// Let device nodes lead to devices; root only [default: opening one fails with EACCES]
    #[arg(long)]
    pub dev: bool,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds, from 0 to 86400".to_owned()),
    }
}
