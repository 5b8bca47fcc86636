//! Describes files that lost bytes, since those could not be stored.

use std::time::UNIX_EPOCH;

use pando_data::{DataFs, Loss};

use crate::admin::protocol::LostFile;
use crate::console::text::{bytes, date};

/// The files with lost bytes of a mount at this path.
pub fn of(mountpoint: &str, data: &DataFs) -> Vec<LostFile> {
    data.losses().into_iter().map(|loss| lost_file(mountpoint, &loss)).collect()
}

fn lost_file(mountpoint: &str, loss: &Loss) -> LostFile {
    let names = loss.path.iter().map(|name| String::from_utf8_lossy(name.as_bytes()));
    let path = names.fold(String::new(), |path, name| format!("{path}/{name}"));
    let path = match (path.as_str(), loss.is_whole_path) {
        ("", _) => None,
        (_, true) => Some(format!("{}{path}", mountpoint.trim_end_matches('/'))),
        (_, false) => path.strip_prefix('/').map(str::to_owned),
    };
    LostFile {
        path,
        ino: loss.ino.0,
        bytes: loss.bytes,
        since: loss.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        error: loss.errno.to_string(),
    }
}

/// One line for each of the first `most` files, and a line for the rest. `all` is the number of
/// bytes that all files lost.
pub fn lines(files: &[LostFile], all: u64, most: usize) -> String {
    let shown = &files[..files.len().min(most)];
    let mut text = String::new();
    for file in shown {
        let which = match &file.path {
            Some(path) => format!("{path} (inode {})", file.ino),
            None => format!("inode {}", file.ino),
        };
        let (lost, since) = (bytes(file.bytes), date(file.since));
        text.push_str(&format!("  {which}: {lost}, since {since}: {}\n", file.error));
    }
    let told: u64 = shown.iter().map(|file| file.bytes).sum();
    if all > told {
        text.push_str(&format!("  other files: {}\n", bytes(all - told)));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pando_types::{Errno, Ino, Name};

    use super::*;

    #[test]
    fn a_loss_is_told_with_file_and_time() {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let mut loss = Loss {
            ino: Ino(77),
            path: vec![name("a"), name("b c")],
            is_whole_path: true,
            bytes: 5 << 20,
            since: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            errno: Errno::ENOSPC,
        };
        let whole = lost_file("/mnt", &loss);
        assert_eq!(whole.path.as_deref(), Some("/mnt/a/b c"));
        assert_eq!(lost_file("/", &loss).path.as_deref(), Some("/a/b c"));
        (loss.path, loss.is_whole_path) = (vec![name("b c")], false);
        assert_eq!(lost_file("/mnt", &loss).path.as_deref(), Some("b c"));
        loss.path.clear();
        let unnamed = lost_file("/mnt", &loss);
        assert_eq!(unnamed.path, None);
        let why = Errno::ENOSPC.to_string();
        let text = lines(&[whole.clone(), unnamed.clone()], 10 << 20, 10);
        let expected = format!(
            "  /mnt/a/b c (inode 77): 5.0 MiB, since 2023-11-14 22:13:20 UTC: {why}\n  inode 77: 5.0 MiB, since 2023-11-14 22:13:20 UTC: {why}\n"
        );
        assert_eq!(text, expected);
        let text = lines(&[whole, unnamed], 11 << 20, 1);
        assert_eq!(text.lines().last(), Some("  other files: 6.0 MiB"));
    }
}
