//! `pando mount`: mounts a volume whose shards are served by other processes.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Weak};

use pando_client::net::Net;
use pando_client::{Client, Transport, Volume};
use pando_data::{DataFs, LocalStore, ObjectStore, SyncObjects};
use pando_fuse::Mounted;
use pando_keys::{Identity, Squash};
use pando_lent::Borrowing;
use pando_lent::journal::Mounts;
use pando_server::admin::{self, SocketFile};
use pando_server::inspect::Inspector;
use pando_types::op::{AccessMask, Request};

use crate::admin::protocol::{MountStatus, Query, Told};
use crate::admin::sockets::{journals, log, socket};
use crate::commands::mount::args::MountArgs;
use crate::console::output::say;
use crate::failure::Failure;
use crate::metrics;
use crate::metrics::door::{Door, Tell, told_at};
use crate::mounting::answers::{begin_profile, end_profile, parse_names, pong, sync, unmount};
use crate::mounting::mount::{Mounting, Plan, can_mount};
use crate::mounting::mountpoint;
use crate::mounting::outspoken::Outspoken;
use crate::mounting::set_aside::Teller;
use crate::mounting::stop::serve_until_unmounted;
use crate::mounts;
use crate::process::background::{self, Service, Way};
use crate::process::notify::Pulse;
use crate::process::signals::{self, Stop};
use crate::volume::connect::{Connected, connect_for};
use crate::volume::keys;
use crate::volume::named::Named;

const READ: AccessMask = 4;
const WRITE: AccessMask = 2;
const EXECUTE: AccessMask = 1;

pub fn run(args: &MountArgs) -> Result<ExitCode, Failure> {
    can_mount()?;
    let named = Named::parse(&args.target)?;
    let folder = match &named {
        Named::Folder(folder, _) => Some(folder.path()),
        Named::Servers(_) => None,
    };
    let path = mountpoint::prepare(&args.path, folder)?;
    let log = match &args.log {
        Some(path) => path.clone(),
        None => log(&path)?,
    };
    let way = Way { detach: args.detach, background: args.background, json: args.json, log: &log };
    let own_log = args.log.is_none().then(|| log.clone());
    background::run(way, || bring_up(args, &named, path, own_log))
}

/// A mounted tree of this process. Fields are dropped in this order.
struct Tree {
    mounting: Mounting,
    connected: Connected,
    named: String,
    metrics: Option<SocketAddr>,
    /// The admin socket. Set once the process answers there.
    socket: Option<SocketFile>,
    /// The log, if its path is the default and not the user's choice.
    own_log: Option<PathBuf>,
}

/// The accesses by which servers let the users of a key open files as owner and mode say.
fn opens_of(key: Option<&Identity>) -> Option<AccessMask> {
    match key {
        Some(key) if key.squash.is_some() => None,
        Some(key) if key.read_only => Some(READ | EXECUTE),
        _ => Some(READ | WRITE | EXECUTE),
    }
}

fn bring_up(
    args: &MountArgs,
    named: &Named,
    path: PathBuf,
    own_log: Option<PathBuf>,
) -> Result<(Tree, Receiver<Stop>), Failure> {
    let door = Door::open(&args.metrics)?;
    let keys = keys::find(named, args.key.as_ref())?;
    let squash = keys.as_ref().and_then(|keys| keys.identity().squash);
    let key =
        keys.as_ref().map_or_else(|| "none".to_owned(), |keys| keys.identity().key.to_string());
    let opens = opens_of(keys.as_ref().map(|keys| keys.identity()));
    let mut connected = connect_for(named, keys, args.timeout)?;
    let folder = journals()?;
    let teller = Teller::new(&folder);
    let mounts = Mounts::new(&folder, &connected.volume().id, &key);
    let objects = connected.objects(args.objects.as_ref())?;
    let open = || open_store(&objects);
    let store = open()?;
    if !args.sync_metadata {
        connected.borrow(&mounts, &teller, (opens, &store));
    }
    // Of processes that have ended no program is here. A failure of what they stored concerns
    // nothing that this process stores.
    connected.replay(mounts, Teller::new(&folder), &open()?);
    let _ = std::env::set_current_dir("/");
    let (stop, stops) = signals::listen()?;
    let mounting = Mounting::start(Plan {
        transport: connected.transport.clone(),
        volume: connected.volume(),
        objects: store,
        // The servers cannot sync objects that this process stores.
        sync_objects: match connected.borrowing() {
            Some(_) => SyncObjects::ByTransport,
            None => SyncObjects::BeforeCommit,
        },
        mountpoint: &path,
        source: mounts::source(&named.shown()),
        threads: args.threads,
        patience: args.timeout,
        // With any other squash all requests act as one user, so the opener makes no difference.
        as_openers: matches!(squash, Some(Squash::Root { .. })),
        kernel: args.kernel,
    })?;
    teller.tell_programs(&mounting.data);
    let socket = socket(&path)?;
    let named = named.shown();
    let mut tree = Tree { mounting, connected, named, metrics: None, socket: None, own_log };
    tree.metrics = door.map(|door| door.serve(metrics_of(&tree))).transpose()?;
    tree.socket = Some(answer(&tree, &socket, stop)?);
    Ok((tree, stops))
}

fn open_store(folder: &Path) -> Result<Arc<dyn ObjectStore>, Failure> {
    let place = folder.display().to_string();
    match LocalStore::open(folder) {
        Ok(store) => Ok(Arc::new(Outspoken::new(store, place))),
        Err(error) => Err(Failure::plain(format!("cannot open the object store {place}: {error}"))),
    }
}

impl Service for Tree {
    fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "volume": self.named,
            "mount": self.mounting.mountpoint().display().to_string(),
            "shards": self.connected.facts.map.shards,
            "metrics": self.metrics,
            "pid": std::process::id(),
        })
    }

    fn greeting(&self) -> String {
        let path = self.mounting.mountpoint().display();
        let metrics = told_at(self.metrics);
        format!("{} is mounted at {path}{metrics}; `pando umount {path}` unmounts it", self.named)
    }

    fn pulse(&self) -> Pulse {
        self.mounting.pulse()
    }

    fn serve(self, stops: &Receiver<Stop>) -> Result<(), Failure> {
        serve_until_unmounted(&self.mounting.mounted, stops);
        let shown = self.mounting.mountpoint().display().to_string();
        let result = self.mounting.finish(stops);
        // On failure the socket stays. It tells `pando umount` that not all data is stored.
        result?;
        self.connected.end_notes();
        say!("{shown} is unmounted, all is stored");
        // The log goes before the socket. Once the socket is gone, another mount may begin here.
        if let Some(log) = &self.own_log {
            remove_log(log);
        }
        // Another mount at this path may have its own socket there by now. This removes only our
        // own.
        if let Some(socket) = &self.socket {
            socket.remove();
        }
        Ok(())
    }
}

/// Removes the log after success. A log that is not this process's standard error belongs to
/// another process, and stays.
fn remove_log(log: &Path) {
    let of = |is: std::fs::Metadata| (is.dev(), is.ino());
    let own = std::fs::metadata("/proc/self/fd/2").map(of).ok();
    if own.is_some() && std::fs::symlink_metadata(log).map(of).ok() == own {
        let _ = std::fs::remove_file(log);
    }
}

/// What the mount counts. Weak, as [`Parts`] is.
fn metrics_of(tree: &Tree) -> Tell {
    let client = Arc::downgrade(&tree.mounting.client);
    let data = Arc::downgrade(&tree.mounting.data);
    let mounted = Arc::downgrade(&tree.mounting.mounted);
    let borrowing = tree.connected.borrowing().map(Arc::downgrade);
    Box::new(move |families| {
        let (client, data) = (client.upgrade()?, data.upgrade()?);
        metrics::tree::tell(families, &client, &data, &*mounted.upgrade()?);
        let lent = borrowing.as_ref().and_then(Weak::upgrade);
        metrics::tree::tell_lent(families, lent.map(|lent| lent.counts()).unwrap_or_default());
        Some(())
    })
}

/// What the answers need. Weak, so that a late query does not keep a mount alive.
struct Parts {
    transport: Weak<dyn Transport>,
    borrowing: Option<Weak<Borrowing<Arc<Net>>>>,
    client: Weak<Client>,
    data: Weak<DataFs>,
    mounted: Weak<Mounted>,
    volume: Volume,
    path: String,
    stop: Sender<Stop>,
}

fn answer(tree: &Tree, socket: &Path, stop: Sender<Stop>) -> Result<SocketFile, Failure> {
    let parts = Parts {
        transport: Arc::downgrade(&tree.connected.transport),
        borrowing: tree.connected.borrowing().map(Arc::downgrade),
        client: Arc::downgrade(&tree.mounting.client),
        data: Arc::downgrade(&tree.mounting.data),
        mounted: Arc::downgrade(&tree.mounting.mounted),
        volume: tree.connected.volume(),
        path: tree.mounting.mountpoint().display().to_string(),
        stop,
    };
    admin::serve(socket, move |query| parts.answer(query))
        .and_then(|()| SocketFile::at(socket))
        .map_err(|error| Failure::plain(format!("cannot listen at {}: {error}", socket.display())))
}

impl Parts {
    fn answer(&self, query: Query) -> Result<Told, String> {
        const ENDING: &str = "the mount is ending";
        match query {
            Query::Ping => Ok(pong(&*self.data.upgrade().ok_or(ENDING)?)),
            Query::BeginProfile { number, seconds } => {
                begin_profile(&*self.mounted.upgrade().ok_or(ENDING)?, number, seconds)
            }
            Query::EndProfile { number } => {
                end_profile(&*self.mounted.upgrade().ok_or(ENDING)?, number)
            }
            Query::Status | Query::Mount => {
                let client = self.client.upgrade().ok_or(ENDING)?;
                let data = self.data.upgrade().ok_or(ENDING)?;
                let mounted = self.mounted.upgrade().ok_or(ENDING)?;
                let status = MountStatus::of(&self.path, &client, &data, &mounted);
                let lent = self.borrowing.as_ref().and_then(Weak::upgrade);
                Ok(Told::Mount(match lent {
                    Some(lent) => status.with_lent(lent.counts()),
                    None => status,
                }))
            }
            Query::Info { names } => {
                let transport = self.transport.upgrade().ok_or(ENDING)?;
                let names = parse_names(&names)?;
                let call = |shard, request: Request| {
                    pando_client::block_on(transport.call(shard, request.into())).ok()
                };
                let Volume { map, secrets, .. } = self.volume.clone();
                let inspector = Inspector::new(&call, map, secrets);
                inspector.info(&names).map(Told::Info).map_err(|errno| errno.to_string())
            }
            Query::Sync => {
                let client = self.client.upgrade().ok_or(ENDING)?;
                let data = self.data.upgrade().ok_or(ENDING)?;
                sync(&client, &data)
            }
            Query::Down { force } => {
                let mounted = self.mounted.upgrade().ok_or(ENDING)?;
                unmount(&mounted, force, &format!("pando umount --force {}", self.path))?;
                let _ = self.stop.send(if force { Stop::Forced } else { Stop::Asked });
                Ok(Told::Stopping)
            }
        }
    }
}
