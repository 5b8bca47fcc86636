//! Parses `FOLDER-or-ADDRESS` into a volume, and connects to its servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use pando_client::net::{Net, NetError, NetOptions, Target, Tool};
use pando_client::{Transport, Volume};
use pando_net::Keys;
use pando_server::Folder;
use pando_server::folder::objects_of;
use pando_server::superblock::Superblock;
use pando_types::ShardIndex;
use pando_wire::{Address, Ask, Told, VolumeFacts, uuid};
use tokio::sync::oneshot;

use crate::failure::{FAILED, Failure, NOT_RUNNING};

/// A volume as the user names it.
#[derive(Clone, Debug)]
pub enum Named {
    /// By its folder on this machine.
    Folder(Folder, Superblock),
    /// By addresses of its servers.
    Servers(Vec<Address>),
}

impl Named {
    /// Parses a folder or a list of addresses. A text that starts with `/`, `.` or `~`, or that
    /// exists as a path, is a folder.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let is_folder = text.starts_with(['/', '.', '~']) || Path::new(text).exists();
        if !is_folder {
            let addresses: Result<Vec<Address>, _> = text.split(',').map(str::parse).collect();
            match addresses {
                Ok(addresses) => return Ok(Self::Servers(addresses)),
                Err(error) if text.contains(':') => return Err(Failure::plain(error)),
                Err(_) => {}
            }
        }
        if !is_folder && looks_like_host(text) {
            return Err(Failure::plain(format!(
                "`{text}` is neither a folder nor an address with a port: write {text}:PORT for a server, or ./{text} for a folder"
            )));
        }
        let folder = Folder::new(Path::new(text))?;
        let superblock = folder.read()?;
        Ok(Self::Folder(folder, superblock))
    }

    /// The volume as messages name it: its folder, or its addresses with commas between.
    pub fn shown(&self) -> String {
        match self {
            Self::Folder(folder, _) => folder.path().display().to_string(),
            Self::Servers(servers) => {
                servers.iter().map(Address::to_string).collect::<Vec<_>>().join(",")
            }
        }
    }

    pub fn target(&self) -> Target {
        match self {
            Self::Folder(folder, _) => Target::Run(folder.run()),
            Self::Servers(servers) => Target::Servers(servers.clone()),
        }
    }

    /// Options for connections to this volume's servers.
    pub fn options(&self, keys: Option<Keys>) -> NetOptions {
        let volume = match self {
            Self::Folder(_, superblock) => superblock.id(),
            Self::Servers(_) => [0; 16],
        };
        NetOptions { volume, keys, ..NetOptions::default() }
    }

    /// Explains an error of the network to the user, with what to do about it.
    pub fn explain(&self, error: &NetError) -> Failure {
        let shown = self.shown();
        let start = match self {
            Self::Folder(..) => format!("`pando server {shown} --shard all -d` starts one"),
            Self::Servers(_) => "see that it runs, and that the address is right".to_owned(),
        };
        match error {
            NetError::NoServer => Failure::new(
                NOT_RUNNING,
                format!("no server of {shown} has ever been started: {start}"),
            ),
            NetError::Unreachable { is_refusal: false, .. } => {
                let whose = match self {
                    Self::Folder(..) => format!("no server of {shown} answers"),
                    Self::Servers(_) => "no server answers".to_owned(),
                };
                Failure::new(NOT_RUNNING, format!("{whose} ({error}): {start}"))
            }
            _ => Failure::new(FAILED, error),
        }
    }
}

/// Whether the text looks like a host without a port: `localhost`, or a name or number with a dot.
fn looks_like_host(text: &str) -> bool {
    !text.contains('/') && (text == "localhost" || text.contains('.'))
}

/// A transport whose sockets are served by a thread of their own. The thread ends when this is
/// dropped.
pub struct Connected {
    pub transport: Arc<dyn Transport>,
    pub facts: VolumeFacts,
    _end: oneshot::Sender<()>,
}

/// Connects to a volume's servers.
pub fn connect(named: &Named, keys: Option<Keys>) -> Result<Connected, Failure> {
    connect_with(named, named.options(keys))
}

/// Connects to a volume's servers for a caller that waits at most `timeout`. A silent server counts
/// as unreachable by then.
pub fn connect_for(
    named: &Named,
    keys: Option<Keys>,
    timeout: Option<Duration>,
) -> Result<Connected, Failure> {
    let options = named.options(keys);
    let answer_within = answer_within(timeout, options.answer_within);
    connect_with(named, NetOptions { answer_within, ..options })
}

/// The time after which a silent server counts as unreachable: `timeout`, but at least 1 s and at
/// most `usual`.
fn answer_within(timeout: Option<Duration>, usual: Duration) -> Duration {
    timeout.map_or(usual, |timeout| timeout.clamp(Duration::from_secs(1).min(usual), usual))
}

fn connect_with(named: &Named, options: NetOptions) -> Result<Connected, Failure> {
    let target = named.target();
    let (send, receive) = mpsc::channel();
    let (end, ended) = oneshot::channel();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(send.send(Err(Failure::plain(error)))),
        };
        runtime.block_on(async {
            match Net::connect(&target, options).await {
                Ok(connected) => {
                    let _ = send.send(Ok(Ok(connected)));
                    let _ = ended.await;
                }
                Err(error) => drop(send.send(Ok(Err(error)))),
            }
        });
    };
    let no_thread = |error: &dyn std::fmt::Display| {
        Failure::plain(format!("cannot start a thread for connections: {error}"))
    };
    std::thread::Builder::new()
        .name("pando-net".to_owned())
        .spawn(body)
        .map_err(|error| no_thread(&error))?;
    let (net, facts) = receive
        .recv()
        .map_err(|_| no_thread(&"it ended"))??
        .map_err(|error| named.explain(&error))?;
    Ok(Connected { transport: net, facts, _end: end })
}

/// Sends queries to all servers of a volume, on a runtime of its own.
pub struct Questioner {
    runtime: tokio::runtime::Runtime,
    tool: Tool,
}

impl Questioner {
    pub fn new(named: &Named, keys: Option<Keys>) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::plain)?;
        let (target, options) = (named.target(), named.options(keys));
        let tool = runtime
            .block_on(Tool::connect(&target, &options))
            .map_err(|error| named.explain(&error))?;
        Ok(Self { runtime, tool })
    }

    pub const fn facts(&self) -> &VolumeFacts {
        self.tool.facts()
    }

    /// The processes that serve shards: the addresses and the shards of each.
    pub fn processes(&self) -> Vec<(Vec<Address>, Vec<ShardIndex>)> {
        self.tool.processes()
    }

    /// Asks the process that serves a shard.
    pub fn ask_shard(&mut self, shard: ShardIndex, ask: Ask) -> Result<Told, NetError> {
        self.runtime.block_on(self.tool.ask_shard(shard, ask))
    }

    /// Asks many processes at once, and waits at most `within` for each.
    pub fn ask_each(
        &self,
        processes: &[Vec<Address>],
        ask: &Ask,
        within: Duration,
    ) -> Vec<Result<Told, NetError>> {
        self.runtime.block_on(self.tool.ask_each(processes, ask, within))
    }

    /// Asks the process behind these addresses.
    pub fn ask(&mut self, addresses: &[Address], ask: Ask) -> Result<Told, NetError> {
        self.runtime.block_on(self.tool.ask(addresses, ask))
    }
}

impl Connected {
    pub fn volume(&self) -> Volume {
        Volume::from(&self.facts)
    }

    /// The folder that holds the volume's objects, as a path on this machine.
    pub fn objects(&self, named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
        objects(&self.facts, named)
    }
}

/// The folder that holds a volume's objects, as a path on this machine: `named` by the user, or
/// else the path that the server reports.
pub fn objects(facts: &VolumeFacts, named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let there = PathBuf::from(&facts.objects);
    let folder = named.unwrap_or(&there);
    let wanted = uuid(&facts.id);
    match objects_of(folder) {
        Some(found) if found == wanted => Ok(folder.clone()),
        Some(found) => Err(Failure::plain(format!(
            "{} has the objects of another volume ({found}): name this volume's folder of objects with --objects",
            folder.display()
        ))),
        None => Err(Failure::plain(format!(
            "the volume's file data is in {} on its server, and there is none of it in {} here: \
                 make that folder available on this machine (NFS will do), and name it with --objects",
            there.display(),
            folder.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_known_when_the_timeout_ends() {
        let seconds = Duration::from_secs_f64;
        for (timeout, expected) in
            [(None, 5.0), (Some(30.0), 5.0), (Some(5.0), 5.0), (Some(2.0), 2.0), (Some(0.1), 1.0)]
        {
            let known = answer_within(timeout.map(seconds), seconds(5.0));
            assert_eq!(known, seconds(expected), "{timeout:?}");
        }
    }
}
