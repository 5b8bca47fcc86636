//! What files of the system and logs tell.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::mounts;

/// Bytes of the end of a log that a report has.
const LOG_BYTES: u64 = 128 << 10;

/// Versions, the kernel, memory and limits.
pub fn machine() -> Result<String, String> {
    let mut text = format!(
        "pando {}, program {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::current_exe().map_or_else(|error| error.to_string(), |p| p.display().to_string())
    );
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    text.push_str(&format!("processors {cpus}, user {}\n", rustix::process::geteuid().as_raw()));
    for file in ["/proc/version", "/etc/os-release", "/proc/uptime", "/proc/self/limits"] {
        text.push_str(&format!("{file}:\n{}\n", read_or_why(file)));
    }
    let memory = read_or_why("/proc/meminfo");
    text.extend(memory.lines().take(3).map(|line| format!("{line}\n")));
    for file in ["/dev/fuse", "/usr/bin/fusermount3", "/sbin/mount.pando"] {
        let there = if Path::new(file).exists() { "is there" } else { "is not there" };
        text.push_str(&format!("{file} {there}\n"));
    }
    Ok(text)
}

/// All mounts of Pando on this machine.
pub fn listed_mounts() -> Result<String, String> {
    let all = mounts::all().map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let line = |mount: mounts::Mount| {
        let volume = mount.volume()?;
        Some(format!("{volume} at {} ({})\n", mount.path.display(), mount.kind))
    };
    Ok(all.into_iter().filter_map(line).collect())
}

fn read_or_why(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| format!("MISSING: {error}"))
}

/// The end of a log. It follows no link and waits for no pipe, since another user may have put one
/// there.
pub fn end_of_log(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let wrong = |error: std::io::Error| format!("{shown}: {error}");
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(wrong)?;
    let metadata = file.metadata().map_err(wrong)?;
    if !metadata.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    file.seek(SeekFrom::Start(metadata.len().saturating_sub(LOG_BYTES))).map_err(wrong)?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes).map_err(wrong)?;
    Ok(format!(
        "{shown}, the last of {} bytes:\n{}",
        metadata.len(),
        String::from_utf8_lossy(&bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_read_and_no_other_file_in_its_place() {
        let temp = tempfile::tempdir().unwrap();
        let (log, link) = (temp.path().join("log"), temp.path().join("link"));
        std::fs::write(&log, "x".repeat(200_000) + "\nlast\n").unwrap();
        let text = end_of_log(&log).unwrap();
        assert!(text.ends_with("x\nlast\n") && (text.len() as u64) < LOG_BYTES + 1_000);
        std::os::unix::fs::symlink(&log, &link).unwrap();
        for path in [&link, &temp.path().join("none"), temp.path()] {
            let why = end_of_log(path).unwrap_err();
            assert!(why.contains(&path.display().to_string()), "{why}");
        }
    }
}
