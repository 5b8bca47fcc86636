//! Connects to the servers of a volume, as a client does.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pando_client::net::{Net, NetOptions};
use pando_client::{Transport, Volume};
use pando_data::ObjectStore;
use pando_lent::journal::{Mounts, Notebook};
use pando_lent::replay::keep_replaying;
use pando_lent::{Borrowing, Objects, Settings};
use pando_net::Keys;
use pando_server::folder::objects_of;
use pando_types::op::AccessMask;
use pando_wire::{VolumeFacts, uuid};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::named::Named;
use super::syncing::Syncing;
use crate::console::output::say;
use crate::failure::Failure;
use crate::mounting::set_aside::Teller;

/// Number of changes of a directory in a row after which a mount borrows it.
const EAGER_AFTER: u32 = 8;

/// A transport whose sockets are served by a thread of their own. The thread ends when this is
/// dropped.
pub struct Connected {
    pub transport: Arc<dyn Transport>,
    pub facts: VolumeFacts,
    net: Arc<Net>,
    runtime: Handle,
    /// What shards lend, if they do.
    borrowing: Option<Arc<Borrowing<Arc<Net>>>>,
    _end: oneshot::Sender<()>,
}

/// Connects to a volume's servers.
pub fn connect(named: &Named, keys: Option<Keys>) -> Result<Connected, Failure> {
    connect_with(named, named.options(keys))
}

/// Connects to a volume's servers for a caller that waits at most `timeout`. A silent server counts
/// as unreachable by then.
pub fn connect_for(
    named: &Named,
    keys: Option<Keys>,
    timeout: Option<Duration>,
) -> Result<Connected, Failure> {
    let options = named.options(keys);
    let answer_within = answer_within(timeout, options.answer_within);
    connect_with(named, NetOptions { answer_within, ..options })
}

/// The time after which a silent server counts as unreachable: `timeout`, but at least 1 s and at
/// most `usual`.
fn answer_within(timeout: Option<Duration>, usual: Duration) -> Duration {
    timeout.map_or(usual, |timeout| timeout.clamp(Duration::from_secs(1).min(usual), usual))
}

fn connect_with(named: &Named, options: NetOptions) -> Result<Connected, Failure> {
    let target = named.target();
    let (send, receive) = mpsc::channel();
    let (end, ended) = oneshot::channel();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(send.send(Err(Failure::plain(error)))),
        };
        runtime.block_on(async {
            match Net::connect(&target, options).await {
                Ok(connected) => {
                    let _ = send.send(Ok(Ok((connected, Handle::current()))));
                    let _ = ended.await;
                }
                Err(error) => drop(send.send(Ok(Err(error)))),
            }
        });
    };
    let no_thread = |error: &dyn std::fmt::Display| {
        Failure::plain(format!("cannot start a thread for connections: {error}"))
    };
    std::thread::Builder::new()
        .name("pando-net".to_owned())
        .spawn(body)
        .map_err(|error| no_thread(&error))?;
    let ((net, facts), runtime) = receive
        .recv()
        .map_err(|_| no_thread(&"it ended"))??
        .map_err(|error| named.explain(&error))?;
    Ok(Connected { transport: net.clone(), facts, net, runtime, borrowing: None, _end: end })
}

impl Connected {
    /// Lets shards lend parts of directories to the client that is to use this connection: it
    /// answers from these by itself. What it has answered is noted in a journal.
    /// `opens` are the accesses by which it may open files itself. What it stores in `store` is
    /// synced before anything leaves that names it.
    pub fn borrow(
        &mut self,
        mounts: &Mounts,
        teller: &Teller,
        (opens, store): (Option<AccessMask>, &Arc<dyn ObjectStore>),
    ) {
        let Volume { secrets, map, .. } = self.volume();
        let notes = match mounts.begin() {
            Ok(notes) => Arc::new(notes),
            Err(error) => {
                return say!(
                    "no journal can be kept, so this mount sends each change before it is \
                     answered: {error}"
                );
            }
        };
        let notes: Option<Arc<dyn Notebook>> = Some(notes);
        let objects: Option<Arc<dyn Objects>> = Some(Arc::new(self.syncing(store)));
        let settings = Settings { secrets, map, eager_after: EAGER_AFTER, opens, notes, objects };
        let borrowing = Arc::new(Borrowing::new(self.net.clone(), settings));
        borrowing.watch(Box::new(teller.clone()));
        let keeps = borrowing.clone();
        self.runtime.spawn(async move { keeps.keep().await });
        self.transport = borrowing.clone();
        self.borrowing = Some(borrowing);
    }

    /// Sends what ended processes have answered, as long as this process lives.
    pub fn replay(&self, mounts: Mounts, teller: Teller, store: &Arc<dyn ObjectStore>) {
        let (net, objects) = (self.net.clone(), self.syncing(store));
        self.runtime.spawn(async move { keep_replaying(&net, &mounts, &teller, &objects).await });
    }

    fn syncing(&self, store: &Arc<dyn ObjectStore>) -> Syncing {
        Syncing::new(Arc::clone(store), self.runtime.clone())
    }

    /// What shards lend, if they do.
    pub fn borrowing(&self) -> Option<&Arc<Borrowing<Arc<Net>>>> {
        self.borrowing.as_ref()
    }

    /// Removes the journal, after the client was closed.
    pub fn end_notes(&self) {
        if let Some(Err(error)) = self.borrowing.as_ref().map(|it| it.end_notes()) {
            say!("the journal of this mount cannot be removed: {error}");
        }
    }

    pub fn volume(&self) -> Volume {
        Volume::from(&self.facts)
    }

    /// The folder that holds the volume's objects, as a path on this machine.
    pub fn objects(&self, named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
        objects(&self.facts, named)
    }
}

/// The folder that holds a volume's objects, as a path on this machine: `named` by the user, or
/// else the path that the server reports.
pub fn objects(facts: &VolumeFacts, named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let there = PathBuf::from(&facts.objects);
    let folder = named.unwrap_or(&there);
    let wanted = uuid(&facts.id);
    match objects_of(folder) {
        Some(found) if found == wanted => Ok(folder.clone()),
        Some(found) => Err(Failure::plain(format!(
            "{} has the objects of another volume ({found}): name this volume's folder of objects with --objects",
            folder.display()
        ))),
        None => Err(Failure::plain(format!(
            "the volume's file data is in {} on its server, and {} here has none of it. Make that \
             folder available on this machine (NFS will do), and name it with --objects",
            there.display(),
            folder.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_known_when_the_timeout_ends() {
        let seconds = Duration::from_secs_f64;
        for (timeout, expected) in
            [(None, 5.0), (Some(30.0), 5.0), (Some(5.0), 5.0), (Some(2.0), 2.0), (Some(0.1), 1.0)]
        {
            let known = answer_within(timeout.map(seconds), seconds(5.0));
            assert_eq!(known, seconds(expected), "{timeout:?}");
        }
    }
}
