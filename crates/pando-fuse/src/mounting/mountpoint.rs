//! Whether a directory can become a mount point.

use std::io;
use std::path::{Path, PathBuf};

use crate::mounting::mountinfo::is_mountpoint;

pub(crate) fn check_mountpoint(path: &Path) -> io::Result<PathBuf> {
    let say = |kind, text: String| Err(io::Error::new(kind, text));
    let shown = path.display();
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return say(error.kind(), format!("{shown} does not exist: make the directory first"));
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => {
            return say(
                io::ErrorKind::ResourceBusy,
                format!("{shown} is held by a mount whose process is gone: `umount {shown}` first"),
            );
        }
        Err(error) => return say(error.kind(), format!("cannot look at {shown}: {error}")),
    };
    if !metadata.is_dir() {
        return say(io::ErrorKind::NotADirectory, format!("{shown} is not a directory"));
    }
    let path = path.canonicalize()?;
    if is_mountpoint(&path)? {
        return say(
            io::ErrorKind::ResourceBusy,
            format!("something is mounted at {} already", path.display()),
        );
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_a_mountpoint_and_a_missing_one_is_named() {
        assert!(is_mountpoint(Path::new("/")).unwrap());
        let error = check_mountpoint(Path::new("/no/such/directory")).unwrap_err();
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
        let error = check_mountpoint(Path::new("/")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }
}
