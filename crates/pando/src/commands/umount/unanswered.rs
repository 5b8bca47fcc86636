//! Unmounts a tree whose process does not answer.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use pando_server::Folder;
use pando_server::admin::{self, Answer};

use super::args::UmountArgs;
use super::patience::Patience;
use crate::admin::protocol::{Query, Told};
use crate::admin::silent;
use crate::commands::down::{self, DownArgs};
use crate::console::output;
use crate::failure::{Failure, IN_USE};

/// The process exists, but does not answer.
pub fn suspended(args: &UmountArgs, path: &Path, error: &io::Error) -> Result<ExitCode, Failure> {
    let shown = path.display();
    if !args.force {
        return Err(Failure::plain(format!(
            "the process of the mount at {shown} does not answer ({error}), perhaps it is suspended: let it go on, or \
             `pando umount --force {shown}`, which leaves to it what is not stored yet"
        )));
    }
    pando_fuse::detach_at(path)
        .map_err(|error| Failure::plain(format!("cannot detach the mount at {shown}: {error}")))?;
    output::line(&format!(
        "{shown} is detached; its process does not answer, and stores what is left if it resumes"
    ));
    Ok(ExitCode::SUCCESS)
}

/// No `pando mount` answers: a `pando up` made the mount, or its process is gone.
pub fn other_process(
    args: &UmountArgs,
    path: &Path,
    volume: &str,
    error: &io::Error,
) -> Result<ExitCode, Failure> {
    if let Some(folder) = up_at(args, path, volume)? {
        return down::run(&DownArgs { folder: folder.path().to_owned(), force: args.force });
    }
    let shown = path.display();
    if args.force && error.kind() == io::ErrorKind::ConnectionRefused {
        pando_fuse::abort_at(path);
    }
    let end = if args.force { pando_fuse::detach_at } else { pando_fuse::unmount_at };
    end(path).map_err(|refused| match refused.kind() {
        io::ErrorKind::ResourceBusy => Failure::new(
            IN_USE,
            format!(
                "the process of the mount at {shown} does not answer ({error}), and programs have files open or work \
                 within: end them, or `pando umount --force {shown}`"
            ),
        ),
        _ => Failure::plain(format!(
            "the process of the mount at {shown} does not answer ({error}), and it cannot be unmounted: {refused}"
        )),
    })?;
    let process = match error.kind() {
        io::ErrorKind::ConnectionRefused => "its process was gone",
        // The mount is another user's, or its process uses another `PANDO_RUN`.
        _ => "its process was not found: if it still runs, it stores what is left",
    };
    output::line(&format!("{shown} is unmounted; {process}"));
    Ok(ExitCode::SUCCESS)
}

/// The volume's folder, if a `pando up` serves it and this mount is its own. A dead `pando mount`
/// may have left a mount of this volume, too.
fn up_at(args: &UmountArgs, path: &Path, volume: &str) -> Result<Option<Folder>, Failure> {
    let folder = Path::new(volume);
    // A list of server addresses is no folder.
    if !folder.is_absolute() {
        return Ok(None);
    }
    let folder = Folder::new(folder)?;
    let holder = if folder.is_formatted() { folder.holder()? } else { None };
    let Some(pid) = holder else { return Ok(None) };
    match admin::ask_within(&folder.socket(), &Query::Status, Patience::of(args).awake) {
        Ok(Answer::Ok(Told::Status(status))) => {
            Ok((status.mount.path == path.display().to_string()).then_some(folder))
        }
        // The process is ending, or gives an unexpected answer.
        Ok(_) => Ok(Some(folder)),
        Err(_) if args.force => Ok(None),
        Err(error) => Err(silent::not_answering(&folder, &pid, &error)),
    }
}
