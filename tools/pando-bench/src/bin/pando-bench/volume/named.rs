//! A volume as the user names it: its folder, or addresses of its servers; and the key for it.

use std::path::{Path, PathBuf};

use pando_client::net::{NetOptions, Target};
use pando_keys::{Bundle, KeyRole};
use pando_net::Keys;
use pando_server::{Folder, Superblock};
use pando_wire::Address;

use crate::output::failure::Failure;

/// The environment variable that names a key's file.
const VARIABLE: &str = "PANDO_KEY";

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
        if !is_folder && text.contains(':') {
            let addresses: Result<_, _> = text.split(',').map(str::parse).collect();
            return addresses.map(Self::Servers).map_err(Failure::plain);
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

    /// Options for connections to this volume's servers, with the key that `file` holds, or else
    /// the file that `$PANDO_KEY` names, or else the owner's key in the volume's folder.
    pub fn options(&self, file: Option<&PathBuf>) -> Result<NetOptions, Failure> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let (volume, own) = match self {
            Self::Folder(folder, superblock) => {
                let own = folder.keys().join(format!("{}.pem", KeyRole::Admin));
                (superblock.id(), Some(own).filter(|own| own.exists()))
            }
            Self::Servers(_) => ([0; 16], None),
        };
        let file = file.cloned().or_else(|| variable.map(PathBuf::from)).or(own);
        let keys = file.map(|file| key(&file)).transpose()?;
        Ok(NetOptions { volume, keys, ..NetOptions::default() })
    }
}

fn key(file: &Path) -> Result<Keys, Failure> {
    let bundle = Bundle::read(file).map_err(Failure::plain)?;
    Keys::new(&bundle).map_err(|error| Failure::plain(format!("{}: {error}", file.display())))
}
