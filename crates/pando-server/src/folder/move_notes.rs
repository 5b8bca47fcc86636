//! Files that say in a folder how far moves are. Each file is replaced as a whole, is made durable,
//! and has a checksum.

use std::io;
use std::path::PathBuf;

use pando_types::{Epoch, Lsn, ShardIndex};
use pando_wire::{Hosting, MoveToken};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::place::{Place, copy_name, store_name};
use crate::folder::layout::Folder;

/// `given-K`: the shard was given away from this folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Given {
    /// Token of the attempt.
    pub token: MoveToken,
    /// The new host, with the epoch that was expected of it.
    pub to: Hosting,
}

/// `coming-K`: the copy in this folder is complete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Coming {
    /// Token of the attempt.
    pub token: MoveToken,
    /// Host of the source.
    pub from: Hosting,
    /// Epoch and position of the source's last group.
    pub last: (Epoch, Lsn),
    /// Whether the source has said that the shard is given away.
    pub is_taken: bool,
}

impl Given {
    fn name(shard: u16) -> String {
        format!("given-{shard:04}")
    }

    pub(crate) fn path(folder: &Folder, shard: u16) -> PathBuf {
        folder.path().join(Self::name(shard))
    }

    /// Reads whether a shard was given away. `None`: it was not.
    pub fn read(place: &dyn Place, shard: u16) -> io::Result<Option<Self>> {
        read(place, &Self::name(shard))
    }

    /// Makes durable that the shard was given away.
    #[cfg(test)]
    pub(crate) fn write(&self, place: &dyn Place) -> io::Result<()> {
        write(place, &Self::name(self.to.shard.0), self)
    }

    /// Writes the file's contents durably under another name. This is all that can fail while the
    /// shard is still kept.
    pub(crate) fn draft(&self, place: &dyn Place) -> io::Result<Draft> {
        draft(place, Self::name(self.to.shard.0), self)
    }
}

/// A durable file under a name that does not count yet.
pub(crate) struct Draft {
    name: String,
}

impl Draft {
    /// Gives the file its name, and makes that durable. After an error it is unknown whether the
    /// file counts. `between` is a step of a test before the sync.
    pub(crate) fn commit(
        self,
        place: &dyn Place,
        between: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        place.rename(&draft_name(&self.name), &self.name)?;
        between()?;
        place.sync()
    }
}

impl Coming {
    fn name(shard: u16) -> String {
        format!("coming-{shard:04}")
    }

    /// Reads whether the copy of a shard is complete. `None`: it is not.
    pub fn read(place: &dyn Place, shard: u16) -> io::Result<Option<Self>> {
        read(place, &Self::name(shard))
    }

    pub(crate) fn write(&self, place: &dyn Place) -> io::Result<()> {
        write(place, &Self::name(self.from.shard.0), self)
    }

    pub(crate) fn remove(place: &dyn Place, shard: ShardIndex) -> io::Result<()> {
        place.remove(&Self::name(shard.0))?;
        place.sync()
    }

    /// Puts a copy in its place, and removes the note of the move. The place keeps the shard from
    /// now on.
    pub fn finish(place: &dyn Place, shard: ShardIndex) -> io::Result<()> {
        put_in_place(place, shard)?;
        Self::remove(place, shard)
    }
}

/// Puts a copy that was given to this place where its store belongs. Completes an earlier call that
/// was cut off.
pub(crate) fn put_in_place(place: &dyn Place, shard: ShardIndex) -> io::Result<()> {
    let (coming, own) = (copy_name(shard.0), store_name(shard.0));
    if place.exists(&coming)? {
        // A store of this name remains from a time when the shard was in this folder before.
        place.remove(&own)?;
        place.rename(&coming, &own)?;
        place.sync()?;
    }
    place.remove(&Given::name(shard.0))?;
    place.sync()
}

/// A line of BLAKE3, a line of JSON.
fn text(value: &impl Serialize) -> io::Result<String> {
    let body = serde_json::to_string(value).map_err(io::Error::other)?;
    Ok(format!("{}\n{body}\n", blake3::hash(body.as_bytes()).to_hex()))
}

fn draft_name(name: &str) -> String {
    format!("{name}.new")
}

fn draft(place: &dyn Place, name: String, value: &impl Serialize) -> io::Result<Draft> {
    place.write(&draft_name(&name), &text(value)?)?;
    Ok(Draft { name })
}

fn write(place: &dyn Place, name: &str, value: &impl Serialize) -> io::Result<()> {
    draft(place, name.to_owned(), value)?.commit(place, || Ok(()))
}

fn read<T: DeserializeOwned>(place: &dyn Place, name: &str) -> io::Result<Option<T>> {
    let Some(text) = place.read(name)? else { return Ok(None) };
    let damaged = || io::Error::other(format!("{name} is damaged"));
    let (sum, body) = text.trim_end().split_once('\n').ok_or_else(damaged)?;
    if *sum != *blake3::hash(body.as_bytes()).to_hex() {
        return Err(damaged());
    }
    serde_json::from_str(body).map(Some).map_err(|_| damaged())
}
