//! A volume that is up: its parts, and the order in which they begin and end.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pando_client::{Client, Transport, Volume};
use pando_data::{DataFs, Limits, LocalStore, Maintenance, SyncObjects};
use pando_fuse::{Mounted, Vfs};
use pando_server::folder::FolderLock;
use pando_server::host::{Durability, HostOptions};
use pando_server::sessions::Sessions;
use pando_server::wait::block_on;
use pando_server::{Folder, Host, Superblock};
use pando_types::op::{Head, Op, Request};
use pando_types::{Credentials, ShardIndex};

use super::transport::InProcess;
use crate::cli::UpArgs;
use crate::failure::{Failure, IN_USE};
use crate::mounts;

/// How often objects that nobody needs are deleted.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(10);

/// A volume that is up. Fields are dropped in this order.
pub struct Running {
    pub mounted: Arc<Mounted>,
    maintenance: Maintenance,
    keeping: JoinHandle<()>,
    pub data: Arc<DataFs>,
    pub client: Arc<Client>,
    pub host: Arc<Host>,
    pub superblock: Superblock,
    pub folder: Folder,
    pub durability: &'static str,
    pub began: Instant,
    lock: FolderLock,
}

impl Running {
    pub fn start(
        folder: Folder,
        superblock: Superblock,
        lock: FolderLock,
        mountpoint: &Path,
        args: &UpArgs,
        options: &HostOptions,
    ) -> Result<Self, Failure> {
        let (host, starts) = Host::start(&folder, &superblock, options)?;
        for start in starts {
            if let Some(torn) = start.opened.torn {
                eprintln!("pando: shard {}: cut what a crash left unfinished: {torn}", start.shard);
            }
        }
        let host = Arc::new(host);
        let sessions = load_sessions(&folder)?;
        end_old_sessions(&host, &sessions);
        let transport: Arc<dyn Transport> = Arc::new(InProcess::new(host.clone(), sessions));
        let (client, data) = connect(&folder, &superblock, &host, transport, options)?;
        let maintenance = data
            .maintain(GARBAGE_INTERVAL)
            .map_err(|error| Failure::plain(format!("cannot start a thread: {error}")))?;
        let mounted = mount(&folder, &client, &data, mountpoint, args)?;
        // Begun last: it holds the client until that is closed.
        let keeping = keep(&client)
            .map_err(|error| Failure::plain(format!("cannot start a thread: {error}")))?;
        Ok(Self {
            mounted: Arc::new(mounted),
            maintenance,
            keeping,
            data,
            client,
            host,
            superblock,
            folder,
            durability: args.durability.name(),
            began: Instant::now(),
            lock,
        })
    }

    pub fn mountpoint(&self) -> &Path {
        self.mounted.mountpoint()
    }

    /// What scripts are told when it is up.
    pub fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "folder": self.folder.path(),
            "mount": self.mountpoint(),
            "uuid": self.superblock.uuid,
            "shards": self.superblock.shards,
            "pid": std::process::id(),
        })
    }

    /// Ends all in order, after the mount is gone.
    pub fn finish(self) -> Result<(), Failure> {
        let Self { mounted, maintenance, keeping, data, client, host, folder, lock, .. } = self;
        if mounted.is_over() {
            drop(mounted);
        } else {
            // Its end would be waited for; with this process the kernel ends it.
            std::mem::forget(mounted);
        }
        drop(maintenance);
        data.flush_old(Duration::ZERO);
        let lost = data.lost_bytes() + data.dirty_bytes();
        let closed = pando_client::block_on(client.close());
        host.stop();
        let _ = keeping.join();
        let _ = std::fs::remove_file(folder.socket());
        let failed: Vec<_> = host.status_failures();
        drop(lock);
        if let Some(reason) = failed.first() {
            return Err(Failure::plain(format!("unmounted, but a shard had stopped: {reason}")));
        }
        if lost > 0 {
            return Err(Failure::plain(format!(
                "unmounted, but {lost} bytes that programs wrote could not be stored"
            )));
        }
        closed.map_err(|errno| {
            Failure::plain(format!("unmounted, but the session could not be ended: {errno}"))
        })
    }
}

fn load_sessions(folder: &Folder) -> Result<Arc<Sessions>, Failure> {
    let path = folder.run().join("sessions");
    Sessions::load(path.clone()).map(Arc::new).map_err(|error| {
        Failure::plain(format!("cannot read {}: {error}; it may be deleted", path.display()))
    })
}

/// What a killed mount held open is let go.
fn end_old_sessions(host: &Host, sessions: &Sessions) {
    for session in sessions.open() {
        let request = Request {
            head: Head::default(),
            credentials: Credentials::ROOT,
            op: Op::EndSession(session),
        };
        // One that nobody knows any more has ended, too.
        if block_on(host.call(ShardIndex(0), request)).is_some() {
            let _ = sessions.ended(session);
        }
    }
}

fn connect(
    folder: &Folder,
    superblock: &Superblock,
    host: &Arc<Host>,
    transport: Arc<dyn Transport>,
    options: &HostOptions,
) -> Result<(Arc<Client>, Arc<DataFs>), Failure> {
    let objects = folder.objects();
    let store = LocalStore::open(&objects).map_err(|error| {
        Failure::plain(format!("cannot open the object store {}: {error}", objects.display()))
    })?;
    let store: Arc<dyn pando_data::ObjectStore> = Arc::new(store);
    let to_sync = store.clone();
    host.set_before_sync(Box::new(move || to_sync.sync()));
    let volume =
        Volume { id: superblock.id(), secrets: superblock.secrets(), map: superblock.map() };
    let client = pando_client::block_on(Client::connect(transport, volume))
        .map_err(|errno| Failure::plain(format!("the shards refuse a session: {errno}")))?;
    let client = Arc::new(client);
    // Where an acknowledgement means that the log is durable, the objects that it names must be so before.
    let sync_objects = match options.durability {
        Durability::Os => SyncObjects::ByServer,
        Durability::Disk => SyncObjects::BeforeCommit,
    };
    let data = DataFs::new(client.clone(), store, Limits { sync_objects, ..Limits::default() });
    Ok((client, data))
}

/// Keeps the session alive until the client is closed or the shards stop.
fn keep(client: &Arc<Client>) -> std::io::Result<JoinHandle<()>> {
    let client = client.clone();
    let keeping = move || pando_client::block_on(client.maintain());
    std::thread::Builder::new().name("pando-session".to_owned()).spawn(keeping)
}

fn mount(
    folder: &Folder,
    client: &Arc<Client>,
    data: &Arc<DataFs>,
    mountpoint: &Path,
    args: &UpArgs,
) -> Result<Mounted, Failure> {
    let defaults = pando_fuse::Options::default();
    let options = pando_fuse::Options {
        threads: args.threads.map_or(defaults.threads, usize::from),
        // Others may only be let in by root, or where /etc/fuse.conf says so.
        allow_other: rustix::process::geteuid().is_root(),
        source: mounts::source(folder.path()),
        ..defaults
    };
    let vfs = Vfs::new(client.clone(), data.clone());
    pando_fuse::mount(vfs, mountpoint, &options).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::ResourceBusy => IN_USE,
            _ => crate::failure::FAILED,
        };
        Failure::new(code, error)
    })
}
