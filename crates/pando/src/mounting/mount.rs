//! A mounted tree over any transport: its client, file contents and kernel session, and their start
//! and end.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pando_client::{Client, Transport, Volume};
use pando_data::{DataFs, Limits, Maintenance, ObjectStore, SyncObjects};
use pando_fuse::{Mounted, Vfs};

use super::losses;
use super::stop::await_unless_stopped;
use crate::console::output::say;
use crate::failure::{FAILED, Failure, IN_USE};
use crate::mounting::kernel::KernelArgs;
use crate::process::notify::Pulse;
use crate::process::signals::Stop;

/// Interval at which objects that no file needs are deleted.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of files with lost bytes that a mount names when it ends.
const LOSSES_MAX: usize = 10;

/// Fails if this user cannot mount. Called before anything is made and before any server is
/// contacted.
pub fn can_mount() -> Result<(), Failure> {
    pando_fuse::can_mount().map_err(Failure::plain)
}

/// What a mount starts from.
pub struct Plan<'a> {
    pub transport: Arc<dyn Transport>,
    pub volume: Volume,
    pub objects: Arc<dyn ObjectStore>,
    pub sync_objects: SyncObjects,
    pub mountpoint: &'a Path,
    /// The source that `/proc/mounts` shows.
    pub source: String,
    pub threads: Option<u16>,
    /// Requests fail once no shard has answered them for this long. `None`: they wait for ever.
    pub patience: Option<Duration>,
    /// Whether requests on open files use the opener's credentials. Needed if the servers squash
    /// this machine's root.
    pub as_openers: bool,
    /// What the kernel may remember and do by itself.
    pub kernel: KernelArgs,
}

/// A mounted tree. Fields are dropped in this order.
pub struct Mounting {
    pub mounted: Arc<Mounted>,
    maintenance: Maintenance,
    keeping: JoinHandle<()>,
    pub data: Arc<DataFs>,
    pub client: Arc<Client>,
}

impl Mounting {
    /// Opens a session and mounts.
    pub fn start(plan: Plan<'_>) -> Result<Self, Failure> {
        let patience = plan.patience.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        // The kernel resolves paths, so the client remembers none.
        let options = pando_client::Options {
            patience,
            paths_bytes: 0,
            as_openers: plan.as_openers,
            ..pando_client::Options::default()
        };
        let connecting = Client::connect_with(plan.transport, plan.volume, options);
        let client = pando_client::block_on(connecting).map_err(|errno| {
            Failure::plain(format!(
                "cannot begin a session with the volume ({errno}): `pando status` of the volume \
                 shows whether its servers run"
            ))
        })?;
        let client = Arc::new(client);
        client.watch_locks(Box::new(|lost| {
            say!(
                "the session was over: {lost} programs or open files have lost their locks (flock, fcntl); they get EIO until they close the file"
            );
        }));
        let limits = Limits { sync_objects: plan.sync_objects, ..Limits::default() };
        let data = DataFs::new(client.clone(), plan.objects, limits);
        let maintenance = data
            .maintain(GARBAGE_INTERVAL)
            .map_err(|error| Failure::plain(format!("cannot start a thread: {error}")))?;
        let mounted =
            mount(&client, &data, plan.mountpoint, plan.source, plan.threads, plan.kernel)?;
        // Started last, since the thread holds the client until the client is closed.
        let keeping = keep(&client)
            .map_err(|error| Failure::plain(format!("cannot start a thread: {error}")))?;
        Ok(Self { mounted: Arc::new(mounted), maintenance, keeping, data, client })
    }

    pub fn mountpoint(&self) -> &Path {
        self.mounted.mountpoint()
    }

    /// The tables that every request needs can be read: pending requests, known inodes, files with
    /// losses. No server is asked, since a mount whose servers are away is alive.
    pub fn pulse(&self) -> Pulse {
        let mounted = Arc::downgrade(&self.mounted);
        let (client, data) = (Arc::downgrade(&self.client), Arc::downgrade(&self.data));
        Box::new(move || {
            drop(mounted.upgrade().map(|mounted| mounted.counters()));
            let _ = client.upgrade().map(|client| client.known_inodes());
            drop(data.upgrade().map(|data| data.losses()));
        })
    }

    /// Ends the parts in order, after the mount is gone. It waits for servers that do not answer
    /// until a signal arrives.
    pub fn finish(self, stops: &Receiver<Stop>) -> Result<(), Failure> {
        let path = self.mountpoint().display().to_string();
        let Self { mounted, maintenance, keeping, data, client } = self;
        if mounted.is_over() {
            drop(mounted);
        } else {
            // To drop it would wait for the end of the session. The kernel ends the session with
            // this process.
            std::mem::forget(mounted);
        }
        let unstored = {
            let data = data.clone();
            move || data.lost_bytes() + data.dirty_bytes()
        };
        let rest = Rest { path, maintenance, keeping, data, client };
        let (give, take) = channel::<Rest>();
        let (tell, ended) = channel();
        let storing = move || {
            if let Ok(rest) = take.recv() {
                let _ = tell.send(rest.store());
            }
        };
        // If the thread cannot start, the channel is closed and this thread stores the data itself.
        let _ = std::thread::Builder::new().name("pando-ending".to_owned()).spawn(storing);
        if let Err(unsent) = give.send(rest) {
            return unsent.0.store();
        }
        let notice = || {
            format!(
                "still storing what programs wrote, {} bytes, and ending the session; a signal (Ctrl-C) breaks that off",
                unstored()
            )
        };
        await_unless_stopped(&ended, stops, notice).unwrap_or_else(|| {
            Err(Failure::plain(format!(
                "unmounted, but the end was broken off: {} bytes that programs wrote are not stored",
                unstored()
            )))
        })
    }
}

/// The parts that are still needed after the mount is gone.
struct Rest {
    path: String,
    maintenance: Maintenance,
    keeping: JoinHandle<()>,
    data: Arc<DataFs>,
    client: Arc<Client>,
}

impl Rest {
    /// Stores what programs wrote, and ends the session.
    fn store(self) -> Result<(), Failure> {
        drop(self.maintenance);
        self.data.flush_old(Duration::ZERO);
        let synced = self.data.store().sync();
        let lost = self.data.lost_bytes() + self.data.dirty_bytes();
        let closed = pando_client::block_on(self.client.close());
        if closed.is_ok() {
            let _ = self.keeping.join();
        }
        if lost > 0 {
            let files = losses::of(&self.path, &self.data);
            let lines = losses::lines(&files, lost, LOSSES_MAX);
            return Err(Failure::plain(format!(
                "unmounted, but {lost} bytes that programs wrote could not be stored:\n{}",
                lines.trim_end()
            )));
        }
        if let Err(error) = synced {
            return Err(Failure::plain(format!(
                "unmounted, but the last file data that programs wrote could not be made durable \
                 ({error}): the log names the files of which changes were lost"
            )));
        }
        if let Err(errno) = closed {
            // All data is stored by then, so this is no failure.
            say!("the session could not be ended ({errno}): it ends with its lease");
        }
        Ok(())
    }
}

/// Starts the thread that keeps the session alive until the client is closed or the transport
/// stops.
fn keep(client: &Arc<Client>) -> std::io::Result<JoinHandle<()>> {
    let client = client.clone();
    let keeping = move || pando_client::block_on(client.maintain());
    std::thread::Builder::new().name("pando-session".to_owned()).spawn(keeping)
}

fn mount(
    client: &Arc<Client>,
    data: &Arc<DataFs>,
    mountpoint: &Path,
    source: String,
    threads: Option<u16>,
    kernel: KernelArgs,
) -> Result<Mounted, Failure> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && (kernel.suid || kernel.dev) {
        let option = if kernel.suid { "--suid" } else { "--dev" };
        return Err(Failure::plain(format!(
            "{option} is for root only: mount as root, or without it"
        )));
    }
    let defaults = pando_fuse::Options::default();
    let options = pando_fuse::Options {
        entry_timeout: kernel.entry_timeout,
        attr_timeout: kernel.attr_timeout,
        suid: kernel.suid,
        dev: kernel.dev,
        exec: !kernel.noexec,
        read_only: kernel.ro,
        threads: threads.map_or(defaults.threads, usize::from),
        // Only root may let other users in, or `/etc/fuse.conf` allows it.
        allow_other: is_root,
        source,
        // The running program, even if its file was replaced meanwhile.
        dropper: vec!["/proc/self/exe".into(), "drop-pages".into()],
        ..defaults
    };
    let vfs = Vfs::new(client.clone(), data.clone());
    pando_fuse::mount(vfs, mountpoint, &options).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::ResourceBusy => IN_USE,
            _ => FAILED,
        };
        Failure::new(code, error)
    })
}
