//! Completes moves to a folder that its last process knew to be taken.

use std::io;

use pando_types::{SHARDS_MAX, ShardIndex};

use crate::folder::layout::Folder;
use crate::folder::move_notes::Coming;

/// Completes moves to this folder that its last process knew to be taken. To be called before
/// shards are locked, and before anything that the folder says of moves is believed.
pub fn finish_taken(folder: &Folder) -> io::Result<()> {
    if folder.read().is_err() {
        return Ok(());
    }
    // The last process may have ended before it made its changes durable. Others must not hear of
    // them before that: a shard that is given away, and comes back by a loss of power, would begin
    // in the epoch that was told of its new place.
    folder.sync()?;
    for shard in (0..SHARDS_MAX).map(ShardIndex) {
        let is_taken = || -> io::Result<bool> {
            Ok(Coming::read(folder, shard.0)?.is_some_and(|it| it.is_taken))
        };
        // If the lock is taken, another process works on the move. That process may have ended it
        // before this one got the lock.
        if is_taken()?
            && let Ok(_lock) = folder.lock_shard(shard.0)
            && is_taken()?
        {
            Coming::finish(folder, shard)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pando_types::{Epoch, Lsn};
    use pando_wire::{Hosting, MoveToken};

    use super::*;
    use crate::folder::move_notes::Given;
    use crate::folder::superblock::Superblock;

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
