//! Arguments that say what the kernel may do by itself.

use std::time::Duration;

use clap::Args;

/// What the kernel may do by itself.
#[derive(Args, Debug, Clone, Copy)]
pub struct KernelArgs {
    /// Seconds for which the kernel may answer from its attribute cache
    ///
    /// A size, time, mode or owner that another mount changed may stay invisible for that long. A
    /// change that refuses access counts at once. With 0, all changes are seen at once.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub attr_timeout: Duration,
    /// Seconds for which the kernel may answer from its cache of names of files
    ///
    /// A file that another mount renamed, removed or replaced may still be found by its old name
    /// for that long. With 0, all changes are seen at once. Names of directories are never answered
    /// from that cache.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub entry_timeout: Duration,
    /// Run setuid and setgid programs as their owner or group; root only [default: these bits are
    /// ignored]
    #[arg(long)]
    pub suid: bool,
    /// Open devices through device nodes; root only [default: EACCES]
    #[arg(long)]
    pub dev: bool,
    /// Refuse every change with EROFS [default: changes as owner and mode allow]
    #[arg(long)]
    pub ro: bool,
    /// Refuse to run programs of the tree [default: programs run as mode allows]
    #[arg(long)]
    pub noexec: bool,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds, from 0 to 86400".to_owned()),
    }
}
