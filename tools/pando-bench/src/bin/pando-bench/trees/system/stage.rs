//! Where programs work on one system.

use std::path::Path;

use tempfile::TempDir;

use super::volume;
use crate::output::failure::Failure;
use crate::trees::args::TreesArgs;
use crate::trees::row::System;
use crate::volume::servers::{Serve, Server};
use crate::volume::{make, mounts};

/// A system that is up. Dropping it removes everything on it.
pub struct Stage {
    pub system: System,
    /// Its processes end before the folder is removed.
    server: Option<Server>,
    folder: Option<TempDir>,
}

impl Stage {
    pub fn start(system: System, args: &TreesArgs) -> Result<Self, Failure> {
        let (server, folder) = match (system, volume(system, args)) {
            (_, Some(volume)) => (Some(Server::pando(&volume)?), None),
            (System::Null, None) => (Some(Server::null(Serve::Up, None)?), None),
            (System::Pass, None) => {
                let folder = make::temporary("pando-bench-")?;
                (Some(Server::pass(folder.path())?), Some(folder))
            }
            (_, None) => (None, Some(make::temporary("pando-bench-")?)),
        };
        Ok(Self { system, server, folder })
    }

    /// Where programs work.
    pub fn root(&self) -> &Path {
        match (&self.server, &self.folder) {
            (Some(server), _) => server.mountpoint(),
            (None, Some(folder)) => folder.path(),
            (None, None) => Path::new("/nonexistent"),
        }
    }

    /// Where files are made that programs find below [`Self::root`].
    pub fn making(&self) -> &Path {
        self.folder.as_ref().map_or_else(|| self.root(), TempDir::path)
    }

    /// Unmounts the system and mounts it anew, so its kernel remembers nothing. A local folder
    /// stays as it is.
    pub fn remount(&mut self) -> Result<(), Failure> {
        let Some(server) = &mut self.server else { return Ok(()) };
        server.restart()?;
        if self.system == System::Up { server.await_hold() } else { Ok(()) }
    }

    /// Type of the file system, as the kernel's list of mounts has it.
    pub fn kind(&self) -> Option<String> {
        mounts::of(self.root()).map(|mount| mount.kind)
    }
}
