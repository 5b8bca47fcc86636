//! Brings a server up: its lock, its addresses and its shards.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use pando_server::Folder;
use pando_server::moving::finish_taken;
use pando_server::net::{Limits, ServerOptions};
use pando_types::ShardIndex;
use pando_wire::{Address, Ask, Told};

use super::shards::{ALL, former_sockets, shards_of};
use crate::commands::server::args::ServerArgs;
use crate::console::output::say;
use crate::failure::Failure;
use crate::metrics;
use crate::metrics::door::{Door, Tell, told_at};
use crate::process::background::{self, Service, Way};
use crate::process::notify::{self, Pulse};
use crate::process::signals::{self, Stop};
use crate::serving::hosting::{Hosting, MayMove, Plan};
use crate::serving::options::host_options;
use crate::volume::keys;
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

pub fn run(args: &ServerArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    if !folder.is_formatted() && !args.join.is_empty() && args.shards == ALL {
        join(&folder, args)?;
    }
    folder.read()?;
    let log = folder.log();
    let way = Way { detach: args.detach, background: args.background, json: args.json, log: &log };
    background::run(way, || bring_up(args, folder))
}

struct Serving {
    hosting: Hosting,
    shards: Vec<u16>,
    metrics: Option<SocketAddr>,
}

fn bring_up(args: &ServerArgs, folder: Folder) -> Result<(Serving, Receiver<Stop>), Failure> {
    let superblock = folder.read()?;
    let door = Door::open(&args.metrics)?;
    finish_taken(&folder).map_err(|error| {
        Failure::plain(format!("cannot finish moves to {}: {error}", folder.path().display()))
    })?;
    let shards = shards_of(&folder, &args.shards, &superblock)?;
    let lock = folder.lock_shards(&shards)?;
    let socket = shards
        .first()
        .map_or_else(|| folder.empty_server_socket(), |&first| folder.server_socket(first));
    let mut listen = vec![Address::Unix(socket)];
    listen.extend(args.listen.iter().cloned());
    let listen = ServerOptions {
        volume: superblock.id(),
        listen,
        also: former_sockets(&folder, &args.shards, &shards),
        advertise: args.advertise.clone(),
        only_advertised: args.only_advertised,
        keys: keys::of_server(&folder, &superblock, args.key.as_ref())?,
        limits: Limits {
            connections: args.max_connections,
            connections_of_key: Limits::of_key(args.max_connections),
            stall: Duration::from_secs(args.stall_seconds),
            ..Limits::default()
        },
        run: folder.run(),
        join: args.join.clone(),
    };
    let _ = std::env::set_current_dir("/");
    let (stop, stops) = signals::listen()?;
    let hosted: Vec<_> = shards.iter().map(|&shard| ShardIndex(shard)).collect();
    let hosting = Hosting::start(Plan {
        folder,
        superblock,
        lock,
        shards: &hosted,
        durability: args.durability,
        options: &host_options(args.durability, &args.sizes),
        listen,
        on_stop: Box::new(move || drop(stop.send(Stop::Asked))),
        gc_every: Duration::from_secs(args.sizes.gc_seconds),
        may_move: MayMove::Yes { faults: args.hooks.faults() },
    })?;
    let host = Arc::downgrade(&hosting.host);
    let server = Arc::downgrade(hosting.server());
    let tell: Tell = Box::new(move |families| {
        metrics::shards::tell(families, &*host.upgrade()?, &*server.upgrade()?);
        Some(())
    });
    let metrics = door.map(|door| door.serve(tell)).transpose()?;
    Ok((Serving { hosting, shards, metrics }, stops))
}

/// Makes a folder that shards can move to, for the volume of the named servers.
fn join(folder: &Folder, args: &ServerArgs) -> Result<(), Failure> {
    let named = Named::Servers(args.join.clone());
    let mut questioner = Questioner::new(&named, keys::find(&named, args.key.as_ref())?)?;
    let told =
        questioner.ask(&args.join, Ask::Superblock).map_err(|error| named.explain(&error))?;
    match told {
        Told::Superblock { file, objects } => Ok(folder.join(&file, &objects)?),
        Told::Failed(why) => Err(Failure::plain(why)),
        _ => Err(Failure::unexpected(named.shown())),
    }
}

impl Serving {
    fn addresses(&self) -> Vec<String> {
        self.hosting.server().addresses().iter().map(Address::to_string).collect()
    }
}

impl Service for Serving {
    fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "folder": self.hosting.folder.path().display().to_string(),
            "uuid": self.hosting.superblock.uuid,
            "shards": self.shards,
            "addresses": self.addresses(),
            "metrics": self.metrics,
            "pid": std::process::id(),
        })
    }

    fn greeting(&self) -> String {
        let shards: Vec<_> = self.shards.iter().map(u16::to_string).collect();
        if shards.is_empty() {
            let (folder, at) = (self.hosting.folder.path().display(), self.addresses().join(", "));
            let metrics = told_at(self.metrics);
            return format!(
                "no shard is served from {folder} yet; shards can be moved to {at}{metrics}"
            );
        }
        format!(
            "shard{} {} of {} served at {}{}",
            if shards.len() == 1 { "" } else { "s" },
            shards.join(","),
            self.hosting.folder.path().display(),
            self.addresses().join(", "),
            told_at(self.metrics)
        )
    }

    /// Each shard lets its state be read.
    fn pulse(&self) -> Pulse {
        let host = Arc::downgrade(&self.hosting.host);
        Box::new(move || drop(host.upgrade().map(|host| host.status())))
    }

    fn serve(self, stops: &Receiver<Stop>) -> Result<(), Failure> {
        let _ = stops.recv();
        notify::stopping("storing what was acknowledged");
        let shown = self.greeting();
        self.hosting.finish()?;
        say!("stopped: {shown}; all is stored");
        Ok(())
    }
}
