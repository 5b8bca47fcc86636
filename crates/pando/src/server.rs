//! `pando server`: runs a process that serves shards.

use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use pando_net::HostsFolder;
use pando_server::founding::make;
use pando_server::moving::{Faults, Given, finish_taken};
use pando_server::net::{Limits, ServerOptions};
use pando_server::{Folder, Superblock};
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::{Address, Ask, Told};

use crate::background::{self, Service, Way};
use crate::cli::ServerArgs;
use crate::connect::{Named, Questioner};
use crate::failure::Failure;
use crate::hosting::{Hosting, MayMove, Plan, host_options};
use crate::keys;
use crate::signals::{self, Stop};

/// The value of `--shard` for all shards whose stores are in the folder.
const ALL: &str = "all";

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
}

fn bring_up(args: &ServerArgs, folder: Folder) -> Result<(Serving, Receiver<Stop>), Failure> {
    let superblock = folder.read()?;
    finish_taken(&folder).map_err(|error| {
        Failure::plain(format!("cannot end what moved to {}: {error}", folder.path().display()))
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
        may_move: MayMove::Yes {
            faults: Faults {
                die_at: args.die_at,
                fail_at: args.fail_at,
                may_be_held: args.may_be_held,
            },
        },
    })?;
    Ok((Serving { hosting, shards }, stops))
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
        _ => Err(Failure::plain(format!("{} answered something else", named.shown()))),
    }
}

/// The shards that the user asks for, without those that were moved away.
fn shards_of(folder: &Folder, text: &str, superblock: &Superblock) -> Result<Vec<u16>, Failure> {
    if text == ALL {
        return Ok(folder.kept()?);
    }
    let known = shards_known(folder, superblock);
    let mut shards = parse_shards(text, known)?;
    // The shard after the last is made, so that `pando shard add` can add it. A folder whose
    // objects are elsewhere may not know all shards, so nothing is made there.
    let is_its_own = folder.told_objects() == folder.objects();
    if is_its_own && shards.contains(&known) {
        make(folder, superblock, known)?;
    }
    let mut is_gone = Ok(());
    shards.retain(|&shard| match Given::read(folder, shard) {
        Ok(None) => true,
        Ok(Some(given)) => {
            let at = given.to.addresses.join(" or ");
            eprintln!(
                "pando: shard {shard} is not served here: it was moved to the server at {at}"
            );
            false
        }
        Err(error) => {
            is_gone = Err(Failure::plain(error));
            true
        }
    });
    is_gone.map(|()| shards)
}

/// Sockets of earlier processes of this folder. A process names its socket after its first shard,
/// or after having none. Other processes still ask there: for example, a server that holds a whole
/// copy of a shard and waits for the handover.
fn former_sockets(folder: &Folder, text: &str, shards: &[u16]) -> Vec<Address> {
    let is_asked_for =
        |shard: u16| text == ALL || text.split(',').any(|part| part.trim().parse() == Ok(shard));
    let is_given = |shard: u16| matches!(Given::read(folder, shard), Ok(Some(_)));
    let had = |shard: &u16| shards.contains(shard) || (is_asked_for(*shard) && is_given(*shard));
    let sockets = (0..SHARDS_MAX).filter(had).map(|shard| folder.server_socket(shard));
    let empty = (text == ALL).then(|| folder.empty_server_socket());
    sockets.chain(empty).map(Address::Unix).collect()
}

/// Number of shards of the volume, as far as this folder knows.
fn shards_known(folder: &Folder, superblock: &Superblock) -> u16 {
    let told = HostsFolder::new(&folder.run()).read().into_iter().map(|hosting| hosting.shard.0);
    let here = (0..SHARDS_MAX).filter(|&shard| folder.shard(shard).is_dir());
    let last = told.chain(here).max().unwrap_or(0);
    superblock.shards.max(last + 1)
}

/// Parses shard numbers with commas between. Each is at most `known`, the first number that is not
/// in use. Returns them ascending, each once.
fn parse_shards(text: &str, known: u16) -> Result<Vec<u16>, Failure> {
    let mut shards = Vec::new();
    for part in text.split(',') {
        match part.trim().parse() {
            Ok(shard) if shard <= known && shard < SHARDS_MAX => shards.push(shard),
            Ok(shard) => {
                let last = known - 1;
                return Err(Failure::new(
                    2,
                    format!(
                        "there is no shard {shard}: the volume has shards 0 to {last}, and {known} would be the next"
                    ),
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
            "folder": self.hosting.folder.path().display().to_string(),
            "uuid": self.hosting.superblock.uuid,
            "shards": self.shards,
            "addresses": self.addresses(),
            "pid": std::process::id(),
        })
    }

    fn greeting(&self) -> String {
        let shards: Vec<_> = self.shards.iter().map(u16::to_string).collect();
        if shards.is_empty() {
            let (folder, at) = (self.hosting.folder.path().display(), self.addresses().join(", "));
            return format!("no shard served from {folder} yet, some can be moved to {at}");
        }
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
