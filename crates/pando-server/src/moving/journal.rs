//! Files that say in a folder how far moves are. Each file is replaced as a whole, is made durable,
//! and has a checksum.

use std::io;
use std::path::PathBuf;

use pando_types::{Epoch, Lsn, SHARDS_MAX, ShardIndex};
use pando_wire::{Hosting, MoveToken};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::place::{Place, copy_name, store_name};
use crate::Folder;

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

    /// Makes durable that the shard was given away. An earlier call may have written this without
    /// making it durable.
    pub(super) fn write(&self, place: &dyn Place) -> io::Result<()> {
        write(place, &Self::name(self.to.shard.0), self)
    }

    /// Writes the file's contents durably under another name. This is all that can fail while the
    /// shard is still kept.
    pub(super) fn draft(&self, place: &dyn Place) -> io::Result<Draft> {
        draft(place, Self::name(self.to.shard.0), self)
    }
}

/// A durable file under a name that does not count yet.
pub(super) struct Draft {
    name: String,
}

impl Draft {
    /// Gives the file its name, and makes that durable. After an error it is unknown whether the
    /// file counts. `between` is a step of a test before the sync.
    pub(super) fn commit(
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

    pub(super) fn write(&self, place: &dyn Place) -> io::Result<()> {
        write(place, &Self::name(self.from.shard.0), self)
    }

    pub(super) fn remove(place: &dyn Place, shard: ShardIndex) -> io::Result<()> {
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
pub(super) fn put_in_place(place: &dyn Place, shard: ShardIndex) -> io::Result<()> {
    let (coming, own) = (copy_name(shard.0), store_name(shard.0));
    if place.exists(&coming) {
        // A store of this name remains from a time when the shard was in this folder before.
        place.remove(&own)?;
        place.rename(&coming, &own)?;
        place.sync()?;
    }
    place.remove(&Given::name(shard.0))?;
    place.sync()
}

/// Completes moves to this folder that its last process knew to be taken. To be called before
/// shards are locked.
pub fn finish_taken(folder: &Folder) -> io::Result<()> {
    if folder.read().is_err() {
        return Ok(());
    }
    for shard in (0..SHARDS_MAX).map(ShardIndex) {
        let is_taken = |coming: Coming| coming.is_taken;
        // If the lock is taken, another process works on the move.
        if Coming::read(folder, shard.0)?.is_some_and(is_taken)
            && let Ok(_lock) = folder.lock_shard(shard.0)
        {
            Coming::finish(folder, shard)?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Superblock;

    fn folder() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        folder.format(&Superblock::new(2, 1).unwrap(), |_, _| Ok(())).unwrap();
        (temp, folder)
    }

    fn hosting(shard: u16) -> Hosting {
        let addresses = vec!["10.0.0.7:7400".to_owned()];
        Hosting { shard: ShardIndex(shard), epoch: Epoch(5), host: [1; 16], addresses }
    }

    #[test]
    fn a_shard_given_away_is_not_served_from_there() {
        let (_temp, folder) = folder();
        assert_eq!(folder.kept().unwrap(), [0, 1]);
        let given = Given { token: MoveToken([3; 16]), to: hosting(1) };
        given.write(&folder).unwrap();
        assert_eq!(Given::read(&folder, 1).unwrap(), Some(given));
        assert_eq!(folder.kept().unwrap(), [0]);
        for error in [folder.lock().unwrap_err(), folder.lock_shards(&[1]).unwrap_err()] {
            assert!(error.to_string().contains("10.0.0.7:7400"), "{error}");
        }
        folder.lock_shards(&[0]).unwrap();
    }

    #[test]
    fn a_copy_is_put_in_place_only_when_it_was_given() {
        let (_temp, folder) = folder();
        Given { token: MoveToken([3; 16]), to: hosting(1) }.write(&folder).unwrap();
        fs::create_dir(folder.coming(1)).unwrap();
        fs::write(folder.coming(1).join("new"), "").unwrap();
        let mut coming = Coming {
            token: MoveToken([4; 16]),
            from: hosting(1),
            last: (Epoch(5), Lsn(7)),
            is_taken: false,
        };
        coming.write(&folder).unwrap();
        finish_taken(&folder).unwrap();
        assert_eq!(Coming::read(&folder, 1).unwrap(), Some(coming.clone()));
        coming.is_taken = true;
        coming.write(&folder).unwrap();
        finish_taken(&folder).unwrap();
        assert_eq!(Coming::read(&folder, 1).unwrap(), None);
        assert!(folder.shard(1).join("new").exists());
        assert_eq!(folder.kept().unwrap(), [0, 1]);
        finish_taken(&folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_named_and_nothing_is_served() {
        let (_temp, folder) = folder();
        fs::write(Given::path(&folder, 1), "nonsense").unwrap();
        let error = folder.lock_shards(&[1]).unwrap_err().to_string();
        assert!(error.contains("given-0001") && error.contains("damaged"), "{error}");
    }
}
