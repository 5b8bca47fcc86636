//! A failed command: its message and its exit code. `pando --help` lists the codes.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use pando_server::FolderError;
use pando_server::host::RecoveryError;
use serde::{Deserialize, Serialize};

use crate::console::output::say;

/// A command's failure, with the message for the user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub message: String,
    pub code: u8,
}

pub const FAILED: u8 = 1;
pub const NOT_RUNNING: u8 = 3;
pub const IN_USE: u8 = 4;
pub const DAMAGED: u8 = 5;

impl Failure {
    pub fn new(code: u8, message: impl Display) -> Self {
        Self { message: message.to_string(), code }
    }

    /// A failure with the general exit code.
    pub fn plain(message: impl Display) -> Self {
        Self::new(FAILED, message)
    }

    /// A process of Pando, named by `sender`, answered a question with a reply of another kind.
    pub fn unexpected(sender: impl Display) -> Self {
        Self::plain(format!("{sender} sent an unexpected reply: use programs of one version"))
    }

    /// Prints the message on standard error, and with `--json` also a JSON object on standard
    /// output.
    pub fn report(&self, as_json: bool) -> ExitCode {
        say!("{}", self.message);
        if as_json {
            crate::console::output::json(&serde_json::json!({ "error": self }));
        }
        ExitCode::from(self.code)
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        let code = match &error {
            FolderError::Locked { .. }
            | FolderError::Served { .. }
            | FolderError::ShardLocked { .. } => IN_USE,
            FolderError::Superblock { .. } => DAMAGED,
            FolderError::Io { .. }
            | FolderError::NoShard { .. }
            | FolderError::Given { .. }
            | FolderError::NoFolder(_)
            | FolderError::NoVolume(_)
            | FolderError::NotAVolume { .. }
            | FolderError::Exists(_)
            | FolderError::Occupied { .. } => FAILED,
        };
        let message = match &error {
            FolderError::NoVolume(path) | FolderError::NotAVolume { path, .. } => mounted_at(path),
            _ => None,
        };
        Self::new(code, message.unwrap_or_else(|| error.to_string()))
    }
}

/// What to tell the user if a path is no volume's folder but has a mount of Pando on it.
fn mounted_at(path: &Path) -> Option<String> {
    let all = crate::mounts::all().ok()?;
    let volume = all.iter().rfind(|mount| mount.path == path)?.volume()?;
    let shown = path.display();
    Some(format!(
        "{shown} is no Pando volume, but where the volume {volume} is mounted: name {volume}"
    ))
}

impl From<RecoveryError> for Failure {
    fn from(error: RecoveryError) -> Self {
        if error.is_damage {
            let advice = "Nothing was changed. Restore the shard's folder from a backup, or keep a copy and ask for help";
            return Self::new(DAMAGED, format!("{error}. {advice}"));
        }
        Self::plain(format!(
            "{error}. No data is lost: see that the disk has room and can be written, then start again"
        ))
    }
}
