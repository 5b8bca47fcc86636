//! A running volume of `pando up`: its parts, and the order in which they begin and end.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use pando_client::{Transport, Volume, block_on};
use pando_data::{LocalStore, ObjectStore, SyncObjects};
use pando_server::admin::SocketFile;
use pando_server::folder::FolderLock;
use pando_server::host::{Durability, HostOptions};
use pando_server::net::{Limits, ServerOptions};
use pando_server::sessions::Sessions;
use pando_server::{Folder, Host, Superblock};
use pando_types::op::{Head, Op, Request};
use pando_types::{Credentials, ShardIndex};
use pando_wire::Address;

use crate::commands::up::args::UpArgs;
use crate::console::output::say;
use crate::failure::Failure;
use crate::metrics;
use crate::metrics::door::{Door, Tell, told_at};
use crate::mounting::mount::{Mounting, Plan};
use crate::mounting::stop::serve_until_unmounted;
use crate::mounts;
use crate::process::background::Service;
use crate::process::notify::Pulse;
use crate::process::signals::Stop;
use crate::serving::hosting::{self, Hosting};
use crate::serving::transport::InProcess;
use crate::volume::settle;

/// A running volume. Fields are dropped in this order.
pub struct Running {
    pub mounting: Mounting,
    pub hosting: Hosting,
    pub began: Instant,
    metrics: Option<SocketAddr>,
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
        let door = Door::open(&args.metrics)?;
        let listen = ServerOptions {
            volume: superblock.id(),
            listen: vec![Address::Unix(folder.server_socket(0))],
            also: Vec::new(),
            advertise: Vec::new(),
            only_advertised: false,
            keys: None,
            limits: Limits::default(),
            run: folder.run(),
            join: Vec::new(),
        };
        let shards: Vec<_> = folder.kept()?.into_iter().map(ShardIndex).collect();
        // A stop request over the network does nothing. The mount must go first, and `pando down`
        // asks for that over the admin socket.
        let on_stop = Box::new(|| {});
        let hosting = Hosting::start(hosting::Plan {
            may_move: hosting::MayMove::No,
            gc_every: Duration::from_secs(args.sizes.gc_seconds),
            folder,
            superblock,
            lock,
            shards: &shards,
            durability: args.durability,
            options,
            listen,
            on_stop,
        })?;
        let mounting = mount(&hosting, mountpoint, args, options)?;
        let metrics = door.map(|door| door.serve(metrics_of(&hosting, &mounting))).transpose()?;
        Ok(Self { mounting, hosting, began: Instant::now(), metrics })
    }
}

impl Service for Running {
    fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "folder": self.hosting.folder.path().display().to_string(),
            "mount": self.mounting.mountpoint().display().to_string(),
            "uuid": self.hosting.superblock.uuid,
            "shards": self.hosting.host.hosted().len(),
            "metrics": self.metrics,
            "pid": std::process::id(),
        })
    }

    fn greeting(&self) -> String {
        let folder = self.hosting.folder.path().display();
        format!(
            "{folder} is mounted at {} with {} shards{}; `pando down {folder}` unmounts it",
            self.mounting.mountpoint().display(),
            self.hosting.host.hosted().len(),
            told_at(self.metrics)
        )
    }

    /// The mount is alive, and each shard lets its state be read.
    fn pulse(&self) -> Pulse {
        let (host, mount) = (Arc::downgrade(&self.hosting.host), self.mounting.pulse());
        Box::new(move || {
            mount();
            drop(host.upgrade().map(|host| host.status()));
        })
    }

    fn serve(self, stops: &Receiver<Stop>) -> Result<(), Failure> {
        serve_until_unmounted(&self.mounting.mounted, stops);
        let Self { mounting, hosting, .. } = self;
        let shown = mounting.mountpoint().display().to_string();
        // After the lock is released, a successor may have its own socket there. So the identity is
        // noted now.
        let socket = SocketFile::at(&hosting.folder.socket());
        let store = mounting.data.store().clone();
        let unmounted = mounting.finish(stops);
        // Done while this process still holds the folder's lock.
        if unmounted.is_ok() && store.sync().is_ok() {
            settle::all_synced(&hosting.folder);
        }
        let stopped = hosting.finish();
        if let Ok(socket) = socket {
            socket.remove();
        }
        stopped?;
        unmounted?;
        say!("{shown} is unmounted, all is stored");
        Ok(())
    }
}

/// What the shards and the mount count. Weak, so that a late question does not keep a stopped
/// volume alive.
fn metrics_of(hosting: &Hosting, mounting: &Mounting) -> Tell {
    let host = Arc::downgrade(&hosting.host);
    let server = Arc::downgrade(hosting.server());
    let client = Arc::downgrade(&mounting.client);
    let data = Arc::downgrade(&mounting.data);
    let mounted = Arc::downgrade(&mounting.mounted);
    Box::new(move |families| {
        metrics::shards::tell(families, &*host.upgrade()?, &*server.upgrade()?);
        let (client, data) = (client.upgrade()?, data.upgrade()?);
        metrics::tree::tell(families, &client, &data, &*mounted.upgrade()?);
        Some(())
    })
}

fn mount(
    hosting: &Hosting,
    mountpoint: &Path,
    args: &UpArgs,
    options: &HostOptions,
) -> Result<Mounting, Failure> {
    let (folder, superblock, host) = (&hosting.folder, &hosting.superblock, &hosting.host);
    let mut map = superblock.map();
    host.update(&mut map);
    if usize::from(map.shards) > host.hosted().len() {
        return Err(Failure::plain(format!(
            "the volume has {} shards, and {} has {} of them: `pando up` serves all shards of a \
             volume. Move the others here with `pando shard move`, or use `pando server` and \
             `pando mount`",
            map.shards,
            folder.path().display(),
            host.hosted().len()
        )));
    }
    let sessions = load_sessions(folder)?;
    end_old_sessions(host, &sessions);
    let transport: Arc<dyn Transport> = Arc::new(InProcess::new(host.clone(), sessions));
    let objects = folder.objects();
    // With `Durability::Disk`, an acknowledgement means that the log is durable. The objects that
    // it names must be durable before.
    let sync_objects = match options.durability {
        Durability::Os => SyncObjects::ByServer,
        Durability::Disk => SyncObjects::BeforeCommit,
    };
    if sync_objects == SyncObjects::ByServer {
        settle::synced_later(folder)?;
    }
    let store = LocalStore::open(&objects).map_err(|error| {
        Failure::plain(format!("cannot open the object store {}: {error}", objects.display()))
    })?;
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    let to_sync = store.clone();
    host.set_before_sync(Box::new(move || to_sync.sync()));
    Mounting::start(Plan {
        transport,
        volume: Volume { id: superblock.id(), secrets: superblock.secrets(), map },
        objects: store,
        sync_objects,
        mountpoint,
        source: mounts::source(&folder.path().display().to_string()),
        threads: args.threads,
        patience: None,
        as_openers: false,
        kernel: args.kernel,
    })
}

fn load_sessions(folder: &Folder) -> Result<Arc<Sessions>, Failure> {
    let path = folder.run().join("sessions");
    Sessions::load(path.clone()).map(Arc::new).map_err(|error| {
        Failure::plain(format!("cannot read {}: {error}; it may be deleted", path.display()))
    })
}

/// Ends sessions of a killed mount, so that files it held open are released.
fn end_old_sessions(host: &Host, sessions: &Sessions) {
    for session in sessions.open() {
        let request = Request {
            head: Head::default(),
            credentials: Credentials::ROOT,
            op: Op::EndSession(session),
            trail: None,
        };
        // A session that shard 0 does not know any more counts as ended, too.
        if block_on(host.call(ShardIndex(0), request)).is_some() {
            let _ = sessions.ended(session);
        }
    }
}
