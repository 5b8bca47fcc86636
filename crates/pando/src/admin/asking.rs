//! Queries to other Pando processes of this machine over their admin sockets. A process may be
//! suspended, so each query has a time limit.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use pando_server::admin::{self, Answer};

use crate::admin::protocol::{Query, Told};

/// A process that is not suspended answers a ping within this time, even if it waits for servers.
const AWAKE_WITHIN: Duration = Duration::from_millis(3_500);
/// Limit for queries whose answer depends on other processes. Those may be suspended, too.
pub const SOON: Option<Duration> = Some(Duration::from_millis(4_500));
/// Limit for queries whose answer depends only on this machine's disks.
pub const IN_TIME: Option<Duration> = Some(Duration::from_secs(60));

/// Pings the process before it sends the query. A suspended process would run the query when it
/// resumes, after the user has given up.
///
/// `TimedOut` means that the process is suspended, or that `limit` has passed.
pub fn ask(socket: &Path, query: &Query, limit: Option<Duration>) -> io::Result<Answer<Told>> {
    let begun = Instant::now();
    // A process of an older version does not know `Ping`. Its error counts as an answer.
    ping(socket)?;
    match limit {
        None => admin::ask(socket, query),
        Some(limit) => {
            let left = limit.saturating_sub(begun.elapsed()).max(Duration::from_millis(500));
            admin::ask_within(socket, query, left)
        }
    }
}

/// Pings a process. `TimedOut` means that it is suspended.
pub fn ping(socket: &Path) -> io::Result<Answer<Told>> {
    admin::ask_within(socket, &Query::Ping, AWAKE_WITHIN)
}
