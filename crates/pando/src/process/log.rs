//! The file that receives the messages of a process in the background.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// Opens the log for appending. It does not follow a symbolic link, since the link's target may not
/// be a log.
pub fn open_log(path: &Path) -> Result<File, Failure> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    let opened = options.create(true).append(true).mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|error| {
        let why = if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            "it is a symbolic link; name the file itself, or remove the link".to_owned()
        } else {
            error.to_string()
        };
        Failure::plain(format!("cannot write the log {}: {why}", path.display()))
    })?;
    check_own(path, &file)?;
    Ok(file)
}

/// Refuses a log that another user owns, or whose folder lets other users replace it. The log's
/// text is for this user alone.
fn check_own(path: &Path, file: &File) -> Result<(), Failure> {
    let shown = path.display();
    let failed = |error| Failure::plain(format!("cannot look at the log {shown}: {error}"));
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = std::fs::metadata(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    let is = file.metadata().map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    let why = if is.uid() != own && is.uid() != 0 {
        format!("it belongs to user {}: name another file, or have it removed", is.uid())
    } else if is.is_file() && is.mode() & 0o022 != 0 {
        format!("others may write it (its mode is {:o}): `chmod go-w {shown}`", is.mode() & 0o7777)
    } else if folder.mode() & 0o1002 == 0o002 {
        "others may write to its folder: name another one".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::plain(format!("cannot write the log {shown}: {why}")))
}

/// The last lines of the file.
pub fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_no_link() {
        let temp = tempfile::tempdir().unwrap();
        let (file, link) = (temp.path().join("log"), temp.path().join("link"));
        open_log(&file).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let error = open_log(&link).unwrap_err().message;
        assert!(error.contains("symbolic link"), "{error}");
    }

    #[test]
    fn a_log_is_in_no_folder_of_all_and_in_no_other_users() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        let log = temp.path().join("log");
        open_log(&log).unwrap();
        assert_eq!(fs::metadata(&log).unwrap().mode() & 0o777, 0o600);
        set(&log, 0o622).unwrap();
        let error = open_log(&log).unwrap_err().message;
        assert!(error.contains("others may write it"), "{error}");
        set(&log, 0o644).unwrap();
        for (mode, is_good) in [(0o777, false), (0o1777, true), (0o775, true), (0o700, true)] {
            set(temp.path(), mode).unwrap();
            assert_eq!(open_log(&log).is_ok(), is_good, "{mode:o}");
        }
        // `chown` needs root, as mounts do.
        std::os::unix::fs::chown(&log, Some(1234), None).unwrap();
        let error = open_log(&log).unwrap_err().message;
        assert!(error.contains("user 1234"), "{error}");
    }
}
