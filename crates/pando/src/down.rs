//! `pando down`.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pando_server::Folder;
use pando_server::admin::{self, Answer};

use crate::cli::DownArgs;
use crate::failure::{Failure, IN_USE, NOT_RUNNING};
use crate::output;
use crate::protocol::{Query, Told};

/// The process has this long to end after it has unmounted.
const END_WITHIN: Duration = Duration::from_secs(60);

pub fn run(args: &DownArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    folder.read()?;
    let shown = folder.path().display();
    let Some(pid) = folder.holder()? else {
        return Err(Failure::new(NOT_RUNNING, format!("{shown} is not running")));
    };
    let query = Query::Down { force: args.force };
    match admin::ask::<_, Told>(&folder.socket(), &query) {
        Ok(Answer::Ok(_)) => {}
        Ok(Answer::Error(error)) => return Err(Failure::new(IN_USE, error)),
        // It may end before its answer is on its way.
        Err(error) if is_hanging_up(&error) => {}
        Err(error) => return Err(not_answering(&folder, &pid, &error)),
    }
    let begun = Instant::now();
    while folder.holder()?.is_some() {
        if begun.elapsed() > END_WITHIN {
            return Err(Failure::plain(format!(
                "{shown} is unmounted, but process {pid} has not ended: see {}",
                folder.log().display()
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    output::line(&format!("{shown} is unmounted and stopped"));
    Ok(ExitCode::SUCCESS)
}

/// It ended before it could answer.
pub fn is_hanging_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Somebody holds the lock and does not talk.
pub fn not_answering(folder: &Folder, pid: &str, error: &io::Error) -> Failure {
    Failure::plain(format!(
        "process {pid} has {} open but does not answer at {} ({error}); it may be starting or ending: \
         try again, or see {}",
        folder.path().display(),
        folder.socket().display(),
        folder.log().display()
    ))
}
