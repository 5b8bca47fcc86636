//! The volume on which the client library is measured: opened in this process, or connected to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pando_client::net::Net;
use pando_client::{BoxFuture, Calling, Transport, TransportError, Volume};
use pando_server::folder::FolderLock;
use pando_server::host::status::ShardStatus;
use pando_server::host::{AtOnce, HostOptions};
use pando_server::{Durability, Folder, Host};
use pando_types::ShardIndex;
use pando_types::op::Request;
use tempfile::TempDir;

use super::durability::DurabilityArg;
use super::make;
use super::named::Named;
use crate::output::failure::Failure;

/// A connected volume. Dropping it stops what was started for it.
pub struct Connected {
    pub transport: Arc<dyn Transport>,
    pub volume: Volume,
    pub shards: u16,
    /// `None`: only its servers know.
    pub durability: Option<&'static str>,
    /// Description of the volume, for output.
    pub shown: String,
    /// Whether the volume is deleted when this is dropped.
    pub is_temporary: bool,
    here: Option<Here>,
}

/// A volume whose shards run in this process. Fields are dropped in this order.
struct Here {
    host: Arc<Host>,
    folder: Folder,
    _lock: FolderLock,
    _temporary: Option<TempDir>,
}

/// Connects, in the current runtime. With a `target` that is served, to its servers. A folder that
/// is not served is opened in this process. Without a target, a new volume of `shards` is made and
/// deleted at the end.
pub async fn connect(
    target: Option<&str>,
    shards: u16,
    durability: DurabilityArg,
    key: Option<&PathBuf>,
) -> Result<Connected, Failure> {
    let options = HostOptions { durability: durability.into(), ..HostOptions::default() };
    let Some(target) = target else {
        return temporary(shards, &options);
    };
    match Named::parse(target)? {
        Named::Folder(folder, _) if !is_served(&folder)? => open(folder, &options, None),
        named => {
            let (target, options) = (named.target(), named.options(key)?);
            let (net, facts) = Net::connect(&target, options).await.map_err(|error| {
                Failure::plain(format!("cannot connect to {}: {error}", named.shown()))
            })?;
            Ok(Connected {
                transport: net,
                volume: Volume::from(&facts),
                shards: facts.map.shards,
                durability: None,
                shown: format!("{}, served by other processes", named.shown()),
                is_temporary: false,
                here: None,
            })
        }
    }
}

/// Makes a new volume in this process that is deleted when it is dropped.
pub fn temporary(shards: u16, options: &HostOptions) -> Result<Connected, Failure> {
    let temporary = make::temporary("pando-bench-")?;
    let folder = Folder::new(&temporary.path().join("volume"))?;
    make::format(&folder, shards)?;
    open(folder, options, Some(temporary))
}

impl Connected {
    /// The volume's folder, if the volume runs in this process.
    pub fn folder(&self) -> Option<&Path> {
        self.here.as_ref().map(|here| here.folder.path())
    }

    /// Status of the shards that run in this process.
    pub fn status(&self) -> Vec<ShardStatus> {
        self.here.as_ref().map(|here| here.host.status()).unwrap_or_default()
    }
}

fn is_served(folder: &Folder) -> Result<bool, Failure> {
    Ok(folder.holder()?.is_some() || !folder.shard_holders()?.is_empty())
}

/// Opens a volume in this process.
pub fn open(
    folder: Folder,
    options: &HostOptions,
    temporary: Option<TempDir>,
) -> Result<Connected, Failure> {
    let superblock = folder.read()?;
    let lock = folder.lock()?;
    let (host, _) = Host::start(&folder, &superblock, options, &superblock.all_shards())?;
    let host = Arc::new(host);
    let durability = match options.durability {
        Durability::Os => DurabilityArg::Os,
        Durability::Disk => DurabilityArg::Disk,
    };
    let shown = match temporary {
        None => format!("{}, opened by this command", folder.path().display()),
        Some(_) => format!("a temporary volume in {}", std::env::temp_dir().display()),
    };
    Ok(Connected {
        transport: Arc::new(Direct(host.clone())),
        volume: Volume {
            id: superblock.id(),
            secrets: superblock.secrets(),
            map: superblock.map(),
        },
        shards: superblock.shards,
        durability: Some(durability.name()),
        shown,
        is_temporary: temporary.is_some(),
        here: Some(Here { host, folder, _lock: lock, _temporary: temporary }),
    })
}

impl Drop for Here {
    fn drop(&mut self) {
        self.host.stop();
    }
}

/// Calls the shards on the caller's thread. It notes no sessions for the next start. A benchmark
/// opens no file, so a killed run leaves nothing that only the end of its session would remove.
pub struct Direct(pub Arc<Host>);

impl Transport for Direct {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        match self.0.call_at_once(shard, request) {
            AtOnce::Answered(reply) => Calling::answered(reply.ok_or(TransportError::Stopped)),
            AtOnce::Later(call) => {
                Calling::waiting(async move { call.await.ok_or(TransportError::Stopped) })
            }
        }
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        Box::pin(self.0.sleep(nanos))
    }

    fn now_nanos(&self) -> u64 {
        self.0.now_nanos()
    }

    fn is_local(&self) -> bool {
        true
    }
}
