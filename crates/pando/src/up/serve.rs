//! Answers on the admin socket.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::Instant;

use pando_client::Client;
use pando_data::DataFs;
use pando_fuse::Mounted;
use pando_server::admin;
use pando_server::inspect::Inspector;
use pando_server::superblock::unhex;
use pando_server::{Host, Superblock};
use pando_types::Name;

use super::running::Running;
use super::stop::Stop;
use crate::failure::Failure;
use crate::protocol::{MountStatus, Query, Told, VolumeStatus};

/// What is needed to answer. Weak, so that a late question does not keep a stopped volume alive.
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

/// Begins to answer.
pub fn serve(running: &Running, stop: Sender<Stop>) -> Result<(), Failure> {
    let parts = Parts {
        host: Arc::downgrade(&running.host),
        client: Arc::downgrade(&running.client),
        data: Arc::downgrade(&running.data),
        mounted: Arc::downgrade(&running.mounted),
        superblock: running.superblock.clone(),
        folder: running.folder.path().display().to_string(),
        mountpoint: running.mountpoint().display().to_string(),
        durability: running.durability,
        began: running.began,
        stop,
    };
    let socket = running.folder.socket();
    admin::serve(&socket, move |query| parts.answer(query))
        .map_err(|error| Failure::plain(format!("cannot listen at {}: {error}", socket.display())))
}

impl Parts {
    fn answer(&self, query: Query) -> Result<Told, String> {
        const ENDING: &str = "the volume is stopping";
        match query {
            Query::Status => self.status().ok_or_else(|| ENDING.to_owned()),
            Query::Info { names } => {
                let host = self.host.upgrade().ok_or(ENDING)?;
                self.info(&host, &names)
            }
            Query::Down { force } => {
                let mounted = self.mounted.upgrade().ok_or(ENDING)?;
                self.down(&mounted, force)
            }
        }
    }

    fn status(&self) -> Option<Told> {
        let (client, data) = (self.client.upgrade()?, self.data.upgrade()?);
        Some(Told::Status(Box::new(VolumeStatus {
            running: true,
            folder: self.folder.clone(),
            uuid: self.superblock.uuid.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_seconds_ago: self.began.elapsed().as_secs(),
            durability: self.durability.to_owned(),
            mount: MountStatus {
                path: self.mountpoint.clone(),
                known_inodes: client.known_inodes() as u64,
                dirty_bytes: data.dirty_bytes(),
                lost_bytes: data.lost_bytes(),
            },
            shards: self.host.upgrade()?.status(),
        })))
    }

    fn info(&self, host: &Host, names: &[String]) -> Result<Told, String> {
        let parse = |digits: &String| {
            let bytes = unhex(digits).ok_or_else(|| format!("`{digits}` is not hexadecimal"))?;
            Name::new(&bytes).map_err(|errno| format!("{:?}: {errno}", OsStr::from_bytes(&bytes)))
        };
        let names = names.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let inspector = Inspector::new(host, self.superblock.map(), self.superblock.secrets());
        inspector.info(&names).map(Told::Info).map_err(|errno| errno.to_string())
    }

    fn down(&self, mounted: &Mounted, force: bool) -> Result<Told, String> {
        if let Err(error) = mounted.request_unmount() {
            if !force {
                return Err(format!(
                    "{error}: programs have files open or work within {}. End them (`fuser -m {}` lists them), or `pando down --force {}`",
                    self.mountpoint, self.mountpoint, self.folder
                ));
            }
            mounted.detach().map_err(|error| {
                format!("cannot detach the mount at {}: {error}", self.mountpoint)
            })?;
        }
        let _ = self.stop.send(Stop::Down);
        Ok(Told::Stopping)
    }
}
