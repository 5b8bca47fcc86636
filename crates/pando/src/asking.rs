//! Questions to processes of this machine, which may be suspended.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use pando_server::admin::{self, Answer};

use crate::protocol::{Query, Told};

/// A process that is not suspended says so within this time, whatever it waits for.
const AWAKE_WITHIN: Duration = Duration::from_millis(3_500);
/// What depends on other processes, which may be suspended as well, has an answer by then, or none.
pub const SOON: Option<Duration> = Some(Duration::from_millis(4_500));
/// What depends on this machine's disks has.
pub const IN_TIME: Option<Duration> = Some(Duration::from_secs(60));

/// Asks a process, if it is awake: what a suspended one is told to do, it would do when nobody
/// expects it any more. `TimedOut` says that it is suspended, or that `limit` is over.
pub fn ask(socket: &Path, query: &Query, limit: Option<Duration>) -> io::Result<Answer<Told>> {
    let begun = Instant::now();
    // One of an older version does not know the question; that is an answer, too.
    ping(socket)?;
    match limit {
        None => admin::ask(socket, query),
        Some(limit) => {
            let left = limit.saturating_sub(begun.elapsed()).max(Duration::from_millis(500));
            admin::ask_within(socket, query, left)
        }
    }
}

/// Whether a process is awake: `TimedOut` if not.
pub fn ping(socket: &Path) -> io::Result<Answer<Told>> {
    admin::ask_within(socket, &Query::Ping, AWAKE_WITHIN)
}
