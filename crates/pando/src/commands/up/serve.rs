//! Answers queries on the admin socket of a `pando up`.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::Instant;

use pando_client::{Client, block_on};
use pando_data::DataFs;
use pando_fuse::Mounted;
use pando_server::inspect::Inspector;
use pando_server::{Host, Superblock, admin};
use pando_types::op::Request;

use super::running::Running;
use crate::admin::protocol::{MountStatus, Query, Told, VolumeStatus};
use crate::failure::Failure;
use crate::mounting::answers::{begin_profile, end_profile, parse_names, pong, sync, unmount};
use crate::process::signals::Stop;

/// What the answers need. Weak, so that a late query does not keep a stopped volume alive.
struct Parts {
    host: Weak<Host>,
    client: Weak<Client>,
    data: Weak<DataFs>,
    mounted: Weak<Mounted>,
    superblock: Superblock,
    folder: String,
    mountpoint: String,
    durability: &'static str,
    began: Instant,
    stop: Sender<Stop>,
}

/// Starts to answer queries on the folder's socket.
pub fn serve(running: &Running, stop: Sender<Stop>) -> Result<(), Failure> {
    let parts = Parts {
        host: Arc::downgrade(&running.hosting.host),
        client: Arc::downgrade(&running.mounting.client),
        data: Arc::downgrade(&running.mounting.data),
        mounted: Arc::downgrade(&running.mounting.mounted),
        superblock: running.hosting.superblock.clone(),
        folder: running.hosting.folder.path().display().to_string(),
        mountpoint: running.mounting.mountpoint().display().to_string(),
        durability: running.hosting.durability,
        began: running.began,
        stop,
    };
    let socket = running.hosting.folder.socket();
    admin::serve(&socket, move |query| parts.answer(query))
        .map_err(|error| Failure::plain(format!("cannot listen at {}: {error}", socket.display())))
}

impl Parts {
    fn answer(&self, query: Query) -> Result<Told, String> {
        const ENDING: &str = "the volume is stopping";
        match query {
            Query::Ping => Ok(pong(&*self.data.upgrade().ok_or(ENDING)?)),
            Query::Status => self.status().ok_or_else(|| ENDING.to_owned()),
            Query::Mount => self.mount().map(Told::Mount).ok_or_else(|| ENDING.to_owned()),
            Query::BeginProfile { number, seconds } => {
                begin_profile(&*self.mounted.upgrade().ok_or(ENDING)?, number, seconds)
            }
            Query::EndProfile { number } => {
                end_profile(&*self.mounted.upgrade().ok_or(ENDING)?, number)
            }
            Query::Info { names } => {
                let host = self.host.upgrade().ok_or(ENDING)?;
                self.info(&host, &names)
            }
            Query::Sync => {
                let client = self.client.upgrade().ok_or(ENDING)?;
                let data = self.data.upgrade().ok_or(ENDING)?;
                sync(&client, &data)
            }
            Query::Down { force } => {
                let mounted = self.mounted.upgrade().ok_or(ENDING)?;
                self.down(&mounted, force)
            }
        }
    }

    fn mount(&self) -> Option<MountStatus> {
        let (client, data) = (self.client.upgrade()?, self.data.upgrade()?);
        Some(MountStatus::of(&self.mountpoint, &client, &data, &*self.mounted.upgrade()?))
    }

    fn status(&self) -> Option<Told> {
        Some(Told::Status(Box::new(VolumeStatus {
            running: true,
            folder: self.folder.clone(),
            uuid: self.superblock.uuid.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_seconds_ago: self.began.elapsed().as_secs(),
            durability: self.durability.to_owned(),
            mount: self.mount()?,
            shards: self.host.upgrade()?.status(),
        })))
    }

    fn info(&self, host: &Host, names: &[String]) -> Result<Told, String> {
        let names = parse_names(names)?;
        let call = |shard, request: Request| block_on(host.call(shard, request));
        let inspector = Inspector::new(&call, self.superblock.map(), self.superblock.secrets());
        inspector.info(&names).map(Told::Info).map_err(|errno| errno.to_string())
    }

    fn down(&self, mounted: &Mounted, force: bool) -> Result<Told, String> {
        let again = format!("pando down --force {}", self.folder);
        unmount(mounted, force, &again)?;
        let _ = self.stop.send(Stop::Asked);
        Ok(Told::Stopping)
    }
}
