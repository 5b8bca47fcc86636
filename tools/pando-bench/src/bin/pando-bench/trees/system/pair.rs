//! Two mounts of one server, on a volume of their own.

use std::path::{Path, PathBuf};

use super::volume;
use crate::output::failure::Failure;
use crate::trees::args::TreesArgs;
use crate::trees::row::System;
use crate::volume::servers::Server;

/// A server with a mount, and with a second one once that is wanted.
pub struct Pair(Server);

impl Pair {
    pub fn start(system: System, args: &TreesArgs) -> Result<Self, Failure> {
        let volume = volume(system, args)
            .ok_or_else(|| Failure::plain(format!("{} cannot have two mounts", system.name())))?;
        Ok(Self(Server::pando(&volume)?))
    }

    pub fn first(&self) -> &Path {
        self.0.mountpoint()
    }

    /// Mounts the volume once more.
    pub fn second(&mut self) -> Result<PathBuf, Failure> {
        self.0.another()
    }
}
