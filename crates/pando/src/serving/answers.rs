//! Answers what the network asks the process, rather than one of its shards.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use pando_net::this_host;
use pando_server::founding::Site;
use pando_server::host::HostOptions;
use pando_server::moving::Moves;
use pando_server::net::{Answer, Hosts, Server};
use pando_server::store::{Gap, Page};
use pando_server::{Folder, Host, Superblock};
use pando_types::ShardIndex;
use pando_wire::{Ask, Hosting as Place, SCAN_MAX, Told, VolumeFacts};
use parking_lot::Mutex;

use crate::admin::protocol::ServerStatus;

/// What the process does when it receives `Ask::Stop`.
pub type OnStop = Box<dyn Fn() + Send + Sync>;

/// What the answers need.
pub struct Answers {
    pub moves: Option<Arc<Moves>>,
    pub host: Arc<Host>,
    pub superblock: Superblock,
    pub folder: Folder,
    pub durability: &'static str,
    pub began: Instant,
    pub on_stop: OnStop,
    pub options: HostOptions,
    pub server: Arc<OnceLock<Weak<Server>>>,
    pub founding: Mutex<()>,
}

impl Answers {
    pub fn into_answer(self, hosts: Arc<Hosts>) -> Answer {
        Arc::new(move |ask, is_near| self.answer(ask, is_near, &hosts))
    }

    fn answer(&self, ask: Ask, is_near: bool, hosts: &Hosts) -> Told {
        if let Some(told) = self.moves.as_ref().and_then(|moves| moves.answer(&ask)) {
            return told;
        }
        match ask {
            Ask::Volume => Told::Volume(Box::new(self.facts(hosts.all()))),
            Ask::Hosts => Told::Hosts(hosts.all()),
            Ask::Status => match serde_json::to_string(&self.status(hosts)) {
                Ok(json) => Told::Json(json),
                Err(error) => Told::Failed(error.to_string()),
            },
            Ask::Scan { shard, from, bytes } => self.scan(shard, &from, bytes.min(SCAN_MAX)),
            Ask::Stop if is_near => {
                (self.on_stop)();
                Told::Stopping
            }
            Ask::Superblock => Told::Superblock {
                file: self.superblock.encode(),
                objects: self.folder.told_objects().display().to_string(),
            },
            Ask::Census(shard, from) => match self.host.census(shard, &from) {
                None => Told::Failed(format!("shard {shard} is not served here")),
                Some(Ok(census)) => Told::Census(census),
                Some(Err(why)) => Told::Failed(format!("shard {shard}: {why}")),
            },
            Ask::Watch(shard, id) => match self.host.watch(shard, id) {
                None => Told::Failed(format!("shard {shard} is not served here")),
                Some(None) => Told::Failed(format!("shard {shard} has not joined the volume yet")),
                Some(Some(watching)) => Told::Watching(watching),
            },
            Ask::Settle(shard, id, first) => match self.host.settle_watch(shard, id, first) {
                None => Told::Failed(format!("shard {shard} is not served here")),
                Some(settled) => Told::Settled(settled),
            },
            Ask::Moves => Told::Moves(Vec::new()),
            Ask::Found(shard) => match self.found(shard) {
                Ok(()) => Told::Founded,
                Err(why) => Told::Failed(why),
            },
            Ask::Adopt(..) | Ask::Move(..) => Told::Failed(
                "`pando up` serves all shards of its volume by itself: shards move between processes of `pando server`"
                    .to_owned(),
            ),
            Ask::Stop => {
                Told::Failed("only a process of the same machine may stop a server".to_owned())
            }
        }
    }

    /// Makes a new shard in this folder. `pando up` uses this; `Moves` does it for `pando server`.
    fn found(&self, shard: ShardIndex) -> Result<(), String> {
        let server = self
            .server
            .get()
            .and_then(Weak::upgrade)
            .ok_or("the process is starting or stopping")?;
        let _one = self.founding.lock();
        let site = Site {
            folder: &self.folder,
            superblock: &self.superblock,
            options: &self.options,
            host: &self.host,
            server: &server,
        };
        site.found(shard, |_| Ok(()))
    }

    fn facts(&self, hosts: Vec<Place>) -> VolumeFacts {
        let mut map = self.superblock.map();
        self.host.update(&mut map);
        VolumeFacts {
            id: self.superblock.id(),
            secrets: self.superblock.secrets(),
            map,
            objects: self.folder.told_objects().display().to_string(),
            host: this_host(),
            hosts,
        }
    }

    fn status(&self, hosts: &Hosts) -> ServerStatus {
        ServerStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_seconds_ago: self.began.elapsed().as_secs(),
            durability: self.durability.to_owned(),
            addresses: hosts.own().first().map_or_else(Vec::new, |own| own.addresses.clone()),
            shards: self.host.status(),
        }
    }

    fn scan(&self, shard: ShardIndex, from: &[u8], bytes: u32) -> Told {
        match self.host.page(shard, from, bytes as usize) {
            None => Told::Failed(format!("shard {shard} is not served here")),
            Some(Ok(Page { gap: Some(Gap { keys, why }), .. })) => Told::Gap { keys, why },
            Some(Ok(Page { rows, is_last, .. })) => Told::Rows { rows, is_last },
            Some(Err(why)) => Told::Failed(format!("shard {shard}: {why}")),
        }
    }
}
