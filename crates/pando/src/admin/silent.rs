//! Why a process gives no answer, and what the user is told of it.

use std::io;

use pando_server::{Folder, admin};

use crate::failure::Failure;

/// Returns the failure, or a clearer one if one of these processes is suspended.
pub fn suspended(holders: &[(u16, String)], failure: Failure) -> Failure {
    match suspended_of(holders) {
        Some(why) => Failure::plain(format!("a server does not answer: {why}")),
        None => failure,
    }
}

/// Why no answer comes, if one of the processes that serve these shards is suspended.
pub fn suspended_of(holders: &[(u16, String)]) -> Option<String> {
    holders.iter().find_map(|(_, pid)| admin::suspended(pid.parse().ok()?))
}

/// Whether the error means that the process ended before it could answer.
pub fn is_hanging_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// The failure for a process that holds the folder's lock and does not answer.
pub fn not_answering(folder: &Folder, pid: &str, error: &io::Error) -> Failure {
    let process = match pid.parse::<u32>() {
        Ok(pid) => format!("process {pid}"),
        // The holder has not written its process number yet.
        Err(_) => "a process".to_owned(),
    };
    if error.kind() == io::ErrorKind::TimedOut {
        let shown = folder.path().display();
        return Failure::plain(format!("{process} has {shown} open and does not answer: {error}"));
    }
    Failure::plain(format!(
        "{process} has {} open but does not answer at {} ({error}); it may be starting or ending: \
         try again, or see {}",
        folder.path().display(),
        folder.socket().display(),
        folder.log().display()
    ))
}
