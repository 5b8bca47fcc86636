//! `pando server`: a process that serves shards.

use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use pando_server::Folder;
use pando_server::net::{Limits, ServerOptions};
use pando_types::ShardIndex;
use pando_wire::Address;

use crate::background::{self, Service, Way};
use crate::cli::ServerArgs;
use crate::connect::secret;
use crate::failure::Failure;
use crate::hosting::{Hosting, Plan, host_options};
use crate::signals::{self, Stop};

pub fn run(args: &ServerArgs) -> Result<ExitCode, Failure> {
    let folder = Folder::new(&args.folder)?;
    folder.read()?;
    let log = folder.log();
    let way = Way { detach: args.detach, background: args.background, json: args.json, log: &log };
    background::run(way, || bring_up(args, folder))
}

struct Serving {
    hosting: Hosting,
    shards: Vec<u16>,
}

fn bring_up(args: &ServerArgs, folder: Folder) -> Result<(Serving, Receiver<Stop>), Failure> {
    let superblock = folder.read()?;
    let shards = parse_shards(&args.shards, superblock.shards)?;
    let lock = folder.lock_shards(&shards)?;
    let mut listen = vec![Address::Unix(folder.server_socket(shards[0]))];
    listen.extend(args.listen.iter().cloned());
    let listen = ServerOptions {
        volume: superblock.id(),
        listen,
        advertise: args.advertise.clone(),
        secret: secret(args.secret.as_ref())?,
        limits: Limits {
            connections: args.max_connections,
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
    })?;
    Ok((Serving { hosting, shards }, stops))
}

/// `all`, or numbers and commas: ascending, each once.
fn parse_shards(text: &str, count: u16) -> Result<Vec<u16>, Failure> {
    if text == "all" {
        return Ok((0..count).collect());
    }
    let mut shards = Vec::new();
    for part in text.split(',') {
        match part.trim().parse() {
            Ok(shard) if shard < count => shards.push(shard),
            Ok(shard) => {
                return Err(Failure::new(
                    2,
                    format!("there is no shard {shard}: the volume has shards 0 to {}", count - 1),
                ));
            }
            Err(_) => {
                return Err(Failure::new(
                    2,
                    format!("`{part}` is not a shard: write --shard 0,1 or --shard all"),
                ));
            }
        }
    }
    shards.sort_unstable();
    shards.dedup();
    Ok(shards)
}

impl Serving {
    fn addresses(&self) -> Vec<String> {
        self.hosting.server().addresses().iter().map(Address::to_string).collect()
    }
}

impl Service for Serving {
    fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "folder": self.hosting.folder.path(),
            "uuid": self.hosting.superblock.uuid,
            "shards": self.shards,
            "addresses": self.addresses(),
            "pid": std::process::id(),
        })
    }

    fn greeting(&self) -> String {
        let shards: Vec<_> = self.shards.iter().map(u16::to_string).collect();
        format!(
            "shard{} {} of {} served at {}",
            if shards.len() == 1 { "" } else { "s" },
            shards.join(","),
            self.hosting.folder.path().display(),
            self.addresses().join(", ")
        )
    }

    fn serve(self, stops: &Receiver<Stop>) -> Result<(), Failure> {
        let _ = stops.recv();
        let shown = self.greeting();
        self.hosting.finish()?;
        eprintln!("pando: stopped: {shown}; all is stored");
        Ok(())
    }
}
