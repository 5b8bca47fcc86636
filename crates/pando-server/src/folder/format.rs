//! Making a volume in a folder. Stores of further shards and the mark of file data come later.

use std::path::Path;
use std::{fs, io};

use crate::folder::error::{FolderError, io_error};
use crate::folder::files::{create, make_folder, make_with_parents, replace};
use crate::folder::layout::{FORMATTING_FILE, Folder, OBJECTS_AT};
use crate::folder::superblock::Superblock;

const OBJECTS_MARK: &str = "volume";

impl Folder {
    /// Makes a volume in a missing or empty folder. `format_shard` fills one shard's folder and
    /// syncs it. An attempt that was cut off is begun again.
    pub fn format(
        &self,
        superblock: &Superblock,
        mut format_shard: impl FnMut(u16, &Path) -> io::Result<()>,
    ) -> Result<(), FolderError> {
        if self.is_formatted() {
            return Err(FolderError::Exists(self.path.clone()));
        }
        self.check_empty()?;
        make_with_parents(&self.path).map_err(io_error("make the folder", &self.path))?;
        let marker = self.path.join(FORMATTING_FILE);
        create(&marker, b"", 0o600).map_err(io_error("write", &marker))?;
        for folder in [self.run(), self.objects()] {
            make_folder(&folder).map_err(io_error("make the folder", &folder))?;
        }
        for shard in 0..superblock.shards {
            let folder = self.shard(shard);
            if folder.exists() {
                fs::remove_dir_all(&folder).map_err(io_error("clear", &folder))?;
            }
            make_folder(&folder).map_err(io_error("make the folder", &folder))?;
            format_shard(shard, &folder).map_err(io_error("format", &folder))?;
        }
        self.write_superblock(&superblock.encode())?;
        fs::remove_file(&marker).map_err(io_error("remove", &marker))?;
        self.sync().map_err(io_error("sync", &self.path))
    }

    /// Makes the folder of a shard that is added, if it is not there. `format` fills it and syncs
    /// it.
    pub fn make_shard(
        &self,
        shard: u16,
        format: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), FolderError> {
        let folder = self.shard(shard);
        if folder.exists() {
            return self.check_kept(shard);
        }
        let draft = self.path.join(format!("shard-{shard:04}.new"));
        if draft.exists() {
            fs::remove_dir_all(&draft).map_err(io_error("clear", &draft))?;
        }
        make_folder(&draft).map_err(io_error("make the folder", &draft))?;
        format(&draft).map_err(io_error("format", &draft))?;
        fs::rename(&draft, &folder).map_err(io_error("make the folder", &folder))?;
        self.sync().map_err(io_error("sync", &self.path))
    }

    /// Makes a folder without any shard, so that shards can be moved to it. `superblock` is that of
    /// the volume, and `objects` is the path of its file data.
    pub fn join(&self, superblock: &[u8], objects: &str) -> Result<(), FolderError> {
        let path = self.superblock_file();
        Superblock::decode(superblock)
            .map_err(|cause| FolderError::Superblock { path: path.clone(), cause })?;
        self.check_empty()?;
        make_with_parents(&self.path).map_err(io_error("make the folder", &self.path))?;
        let run = self.run();
        make_folder(&run).map_err(io_error("make the folder", &run))?;
        let at = self.path.join(OBJECTS_AT);
        create(&at, format!("{objects}\n").as_bytes(), 0o600).map_err(io_error("write", &at))?;
        self.write_superblock(superblock)
    }

    fn write_superblock(&self, bytes: &[u8]) -> Result<(), FolderError> {
        let path = self.superblock_file();
        replace(&path, bytes).map_err(io_error("write", &path))
    }

    /// Writes the volume's UUID into the folder of objects, unless that is elsewhere. A mount takes
    /// a folder with that mark for the one that all mounts share.
    pub fn mark_objects(&self, uuid: &str) -> Result<(), FolderError> {
        if !self.has_objects() {
            return Ok(());
        }
        let objects = self.objects();
        make_folder(&objects).map_err(io_error("make the folder", &objects))?;
        let path = objects.join(OBJECTS_MARK);
        if fs::read_to_string(&path).is_ok_and(|text| text.trim() == uuid) {
            return Ok(());
        }
        create(&path, format!("{uuid}\n").as_bytes(), 0o600).map_err(io_error("write", &path))
    }
}

/// UUID of the volume that has its objects in a folder. `None`: the folder has no mark.
pub fn objects_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(OBJECTS_MARK)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        folder.format(&Superblock::new(2, 1).unwrap(), |_, _| Ok(())).unwrap();
        (temp, folder)
    }

    #[test]
    fn a_formatted_folder_is_read_back_and_not_formatted_again() {
        let (_temp, folder) = formatted();
        assert_eq!(folder.read().unwrap().shards, 2);
        let error = folder.format(&Superblock::new(2, 1).unwrap(), |_, _| Ok(())).unwrap_err();
        assert!(matches!(error, FolderError::Exists(_)), "{error}");
    }

    #[test]
    fn a_missing_store_is_missed_unless_it_was_never_here() {
        let (temp, folder) = formatted();
        fs::create_dir(folder.shard(7)).unwrap();
        assert_eq!(folder.stores().unwrap(), [0, 1, 7], "one that was added is here, too");
        fs::remove_dir(folder.shard(1)).unwrap();
        assert_eq!(folder.stores().unwrap(), [0, 1, 7]);
        let joined = Folder::new(&temp.path().join("joined")).unwrap();
        joined.join(&Superblock::new(2, 1).unwrap().encode(), "/objects").unwrap();
        assert!(joined.stores().unwrap().is_empty());
        fs::create_dir(joined.shard(1)).unwrap();
        assert_eq!(joined.stores().unwrap(), [1]);
    }

    /// A mount beside it would store there what no other mount can read.
    #[test]
    fn a_joined_folder_at_the_path_of_the_objects_has_none() {
        let temp = tempfile::tempdir().unwrap();
        let joined = Folder::new(&temp.path().join("volume")).unwrap();
        let there = joined.objects().display().to_string();
        joined.join(&Superblock::new(2, 1).unwrap().encode(), &there).unwrap();
        joined.mark_objects("5ae1cc6b").unwrap();
        assert!(!joined.has_objects() && !joined.objects().exists());
        assert_eq!(joined.told_objects(), joined.objects());
    }

    #[test]
    fn an_interrupted_format_is_begun_again() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(temp.path()).unwrap();
        let superblock = Superblock::new(3, 1).unwrap();
        let cut = |shard, _: &Path| if shard == 1 { Err(io::Error::other("cut")) } else { Ok(()) };
        folder.format(&superblock, cut).unwrap_err();
        assert!(matches!(folder.read(), Err(FolderError::NoVolume(_))));
        folder.format(&superblock, |_, _| Ok(())).unwrap();
        assert_eq!(folder.read().unwrap(), superblock);
    }

    #[test]
    fn a_folder_with_other_things_in_it_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("thesis.tex"), "x").unwrap();
        let folder = Folder::new(temp.path()).unwrap();
        let error = folder.format(&Superblock::new(1, 1).unwrap(), |_, _| Ok(())).unwrap_err();
        assert!(error.to_string().contains("thesis.tex"), "{error}");
        let error = folder.read().unwrap_err();
        assert!(matches!(error, FolderError::NotAVolume { .. }), "{error}");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_superblock_is_named() {
        let (_temp, folder) = formatted();
        let path = folder.superblock_file();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = folder.read().unwrap_err().to_string();
        assert!(error.contains("superblock") && error.contains("damaged"), "{error}");
    }

    #[test]
    fn only_one_process_holds_the_volume_and_the_other_learns_which() {
        let (_temp, folder) = formatted();
        assert_eq!(folder.holder().unwrap(), None);
        let lock = folder.lock().unwrap();
        let pid = std::process::id().to_string();
        assert_eq!(folder.holder().unwrap().as_ref(), Some(&pid));
        let error = folder.lock().unwrap_err().to_string();
        assert!(error.contains(&pid) && error.contains("pando down"), "{error}");
        drop(lock);
        folder.lock().unwrap();
    }
}
