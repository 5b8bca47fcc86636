//! Parses `FOLDER-or-ADDRESS` into a volume.

use std::path::Path;

use pando_client::net::{NetError, NetOptions, Target};
use pando_net::Keys;
use pando_server::Folder;
use pando_server::superblock::Superblock;
use pando_wire::Address;

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
