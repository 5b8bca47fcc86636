//! `pando auth`: issues, lists, revokes and renews the keys that clients use over TCP.

mod add;
pub mod args;
mod handing;
mod list;
mod renew;
mod rotate;

use std::path::Path;
use std::process::ExitCode;

use pando_keys::{KeyError, KeysFolder};
use pando_server::Folder;

use crate::failure::Failure;
use crate::output;
use args::{AuthCommand, InitArgs, RevokeArgs, VolumeArgs};

pub fn run(command: &AuthCommand) -> Result<ExitCode, Failure> {
    match command {
        AuthCommand::Init(args) => init(args),
        AuthCommand::Add(args) => add::run(args),
        AuthCommand::List(args) => list::run(args),
        AuthCommand::Revoke(args) => revoke(args),
        AuthCommand::Renew(args) => renew::run(args),
        AuthCommand::Rotate(args) => rotate::run(args),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// The volume's folder, and its folder of keys.
fn open(volume: &VolumeArgs) -> Result<(Folder, KeysFolder), Failure> {
    let folder = Folder::new(&volume.folder)?;
    if volume.folder == Path::new(".") && !folder.is_formatted() {
        return Err(Failure::plain(format!(
            "{} holds no Pando volume: name its folder with --volume FOLDER",
            folder.path().display()
        )));
    }
    let superblock = folder.read()?;
    if folder.keys().exists() && !KeysFolder::is_owners(&folder.keys()) {
        return Err(Failure::plain(format!(
            "{} has the keys of one server only: do this in the folder that the volume was made in",
            folder.path().display()
        )));
    }
    let keys = KeysFolder::open(&folder.keys(), superblock.id()).map_err(|error| match error {
        KeyError::NoKeys(path) => Failure::plain(format!(
            "the volume has no keys yet ({} is missing): `pando auth init {}` makes them",
            path.display(),
            folder.path().display()
        )),
        error => Failure::plain(error),
    })?;
    Ok((folder, keys))
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    let folder = Folder::new(&args.folder)?;
    let superblock = folder.read()?;
    let keys = KeysFolder::create(&folder.keys(), superblock.id()).map_err(Failure::plain)?;
    output::line(&format!(
        "made {}; `pando auth add NAME --volume {} > NAME.pem` issues a key",
        keys.path().display(),
        folder.path().display()
    ));
    Ok(())
}

fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
    let (_, keys) = open(&args.volume)?;
    for ended in keys.revoke(&args.what).map_err(Failure::plain)? {
        output::line(&format!("revoked {}", ended.identity));
    }
    Ok(())
}
