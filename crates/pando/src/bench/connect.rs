//! The volume that the library is measured on, and the way to it.

use std::path::Path;
use std::sync::Arc;

use pando_client::{BoxFuture, Transport, TransportError, Volume};
use pando_server::folder::FolderLock;
use pando_server::host::HostOptions;
use pando_server::{Durability, Folder, Host, Superblock};
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::reply::Reply;
use tempfile::TempDir;

use crate::cli::DurabilityArg;
use crate::failure::Failure;

/// A volume that can be called. Dropping it stops what was started for it.
pub struct Connected {
    pub transport: Arc<dyn Transport>,
    pub volume: Volume,
    pub shards: u16,
    pub durability: &'static str,
    /// What was connected to, in words.
    pub shown: String,
    /// Whether it goes away with this.
    pub is_temporary: bool,
    _here: Here,
}

/// The volume in this process. Fields are dropped in this order.
struct Here {
    host: Arc<Host>,
    _lock: FolderLock,
    _temporary: Option<TempDir>,
}

/// The volume in the folder `target`, opened in this process; without, a new one of `shards` that goes away in the end.
pub fn connect(
    target: Option<&Path>,
    shards: u16,
    durability: DurabilityArg,
) -> Result<Connected, Failure> {
    let temporary =
        match target {
            Some(_) => None,
            None => Some(TempDir::with_prefix("pando-bench-").map_err(|error| {
                Failure::plain(format!("cannot make a temporary folder: {error}"))
            })?),
        };
    let folder = match (target, &temporary) {
        (Some(target), _) => Folder::new(target)?,
        (None, Some(temporary)) => {
            let folder = Folder::new(&temporary.path().join("volume"))?;
            crate::format::format(&folder, shards)?;
            folder
        }
        (None, None) => unreachable!("one of both is there"),
    };
    let superblock = folder.read()?;
    let lock = folder.lock()?;
    let host = start(&folder, &superblock, durability)?;
    let shown = match target {
        Some(_) => format!("{}, opened by this command", folder.path().display()),
        None => format!("a temporary volume in {}", std::env::temp_dir().display()),
    };
    Ok(Connected {
        transport: Arc::new(Direct(host.clone())),
        volume: Volume {
            id: superblock.id(),
            secrets: superblock.secrets(),
            map: superblock.map(),
        },
        shards: superblock.shards,
        durability: durability.name(),
        shown,
        is_temporary: temporary.is_some(),
        _here: Here { host, _lock: lock, _temporary: temporary },
    })
}

fn start(
    folder: &Folder,
    superblock: &Superblock,
    durability: DurabilityArg,
) -> Result<Arc<Host>, Failure> {
    let durability = match durability {
        DurabilityArg::Os => Durability::Os,
        DurabilityArg::Disk => Durability::Disk,
    };
    let options = HostOptions { durability, ..HostOptions::default() };
    let (host, _) = Host::start(folder, superblock, &options)?;
    Ok(Arc::new(host))
}

impl Drop for Here {
    fn drop(&mut self) {
        self.host.stop();
    }
}

/// Calls the shards on the caller's thread. Sessions are not noted for a next start: a run opens no file, so one that is
/// killed leaves nothing behind that only the end of its session would remove.
struct Direct(Arc<Host>);

impl Transport for Direct {
    fn call<'a>(
        &'a self,
        shard: ShardIndex,
        request: Request,
    ) -> BoxFuture<'a, Result<Reply, TransportError>> {
        let call = self.0.call(shard, request);
        Box::pin(async move { call.await.ok_or(TransportError::Stopped) })
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        Box::pin(self.0.sleep(nanos))
    }
}
