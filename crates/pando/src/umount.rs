//! `pando umount`.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pando_server::Folder;
use pando_server::admin::{self, Answer};

use crate::cli::{DownArgs, UmountArgs};
use crate::down::is_hanging_up;
use crate::failure::{Failure, IN_USE, NOT_RUNNING};
use crate::mounting::admin::socket;
use crate::protocol::{Query, Told};
use crate::{mounts, output};

/// The process has this long to store what was written, after it has unmounted.
const END_WITHIN: Duration = Duration::from_secs(120);

pub fn run(args: &UmountArgs) -> Result<ExitCode, Failure> {
    let absolute = std::path::absolute(&args.path)
        .map_err(|error| Failure::plain(format!("cannot find {}: {error}", args.path.display())))?;
    // Of a mount whose servers do not answer, nothing may be asked but by name.
    let list = mounts::all()
        .map_err(|error| Failure::plain(format!("cannot read the list of mounts: {error}")))?;
    let is_there = |path: &Path| list.iter().rfind(|mount| mount.path == path).cloned();
    let found = is_there(&absolute).or_else(|| is_there(&absolute.canonicalize().ok()?));
    let Some((mount, volume)) = found.and_then(|mount| Some((mount.clone(), mount.volume()?)))
    else {
        return Err(Failure::new(
            NOT_RUNNING,
            format!("nothing of Pando is mounted at {}", absolute.display()),
        ));
    };
    let (path, shown) = (&mount.path, mount.path.display());
    let socket = socket(path)?;
    match admin::ask::<_, Told>(&socket, &Query::Down { force: args.force }) {
        Ok(Answer::Ok(_)) => {}
        Ok(Answer::Error(error)) => return Err(Failure::new(IN_USE, error)),
        Err(error) if is_hanging_up(&error) => {}
        Err(error) => return other_process(args, path, &volume, &error),
    }
    let begun = Instant::now();
    while socket.exists() {
        if begun.elapsed() > END_WITHIN {
            return Err(Failure::plain(format!(
                "{shown} is unmounted, but its process has not ended: some data may not be stored yet"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    output::line(&format!("{shown} is unmounted, all is stored"));
    Ok(ExitCode::SUCCESS)
}

/// No `pando mount` answers: it is the mount of a `pando up`, or its process is gone.
fn other_process(
    args: &UmountArgs,
    path: &Path,
    volume: &str,
    error: &io::Error,
) -> Result<ExitCode, Failure> {
    let folder = Folder::new(Path::new(volume))?;
    if folder.is_formatted() && folder.holder()?.is_some() {
        return crate::down::run(&DownArgs { folder: folder.path().to_owned(), force: args.force });
    }
    let flags = if args.force {
        rustix::mount::UnmountFlags::DETACH
    } else {
        rustix::mount::UnmountFlags::empty()
    };
    rustix::mount::unmount(path, flags).map_err(|errno| {
        Failure::plain(format!(
            "the process of the mount at {} does not answer ({error}), and it cannot be unmounted: {errno}",
            path.display()
        ))
    })?;
    output::line(&format!("{} is unmounted; its process was gone", path.display()));
    Ok(ExitCode::SUCCESS)
}
