//! Lists all objects of a local folder in the order of their ids, one folder at a time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::{fs, io};

use pando_types::op::ObjectId;

/// Objects of one session in one folder.
pub(super) const PER_FOLDER: u64 = 4096;

/// Iterates over ids and bytes on disk. An object that is deleted meanwhile may be left out. Files
/// that are not named like objects are skipped. It ends after an error.
pub struct Listing {
    root: PathBuf,
    sessions: VecDeque<u64>,
    /// The current session, and those of its folders that are not read yet.
    session: u64,
    folders: VecDeque<u64>,
    objects: VecDeque<(ObjectId, u64)>,
}

impl Listing {
    /// Objects below `root` with ids above `after`.
    pub(super) fn new(root: &Path, after: Option<ObjectId>) -> io::Result<Self> {
        let first = after.map_or(0, |after| after.0.saturating_add(1));
        let (session, counter) = ((first >> 64) as u64, first as u64);
        let mut listing = Self {
            root: root.to_owned(),
            sessions: numbers(root, 16)?.into_iter().filter(|number| *number >= session).collect(),
            session: 0,
            folders: VecDeque::new(),
            objects: VecDeque::new(),
        };
        if listing.sessions.front() == Some(&session) {
            listing.next_session()?;
            listing.folders.retain(|folder| *folder >= counter / PER_FOLDER);
            if listing.folders.front() == Some(&(counter / PER_FOLDER)) {
                listing.next_folder()?;
                listing.objects.retain(|(id, _)| id.0 >= first);
            }
        }
        Ok(listing)
    }

    fn session_folder(&self) -> PathBuf {
        self.root.join(format!("{:016x}", self.session))
    }

    /// Goes on to the next session; false if there is none.
    fn next_session(&mut self) -> io::Result<bool> {
        let Some(session) = self.sessions.pop_front() else { return Ok(false) };
        self.session = session;
        self.folders = numbers(&self.session_folder(), 1)?.into();
        Ok(true)
    }

    fn next_folder(&mut self) -> io::Result<bool> {
        let Some(folder) = self.folders.pop_front() else { return Ok(false) };
        let path = self.session_folder().join(format!("{folder:x}"));
        for number in numbers(&path, 3)? {
            match fs::metadata(path.join(format!("{number:03x}"))) {
                Ok(metadata) if metadata.is_file() && number < PER_FOLDER => {
                    let Some(first) = folder.checked_mul(PER_FOLDER) else { continue };
                    let counter = first + number;
                    let id = u128::from(self.session) << 64 | u128::from(counter);
                    self.objects.push_back((ObjectId(id), metadata.len()));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn advance(&mut self) -> io::Result<Option<(ObjectId, u64)>> {
        loop {
            if let Some(object) = self.objects.pop_front() {
                return Ok(Some(object));
            }
            if !self.next_folder()? && !self.next_session()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Listing {
    type Item = io::Result<(ObjectId, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            (self.sessions, self.folders) = Default::default();
        }
        next.transpose()
    }
}

/// Names in a folder that are hexadecimal numbers of at least `digits` digits, as the store writes
/// them. Ascending, each once. A folder that is gone has none.
fn numbers(folder: &Path, digits: usize) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let number = u64::from_str_radix(name, 16).ok();
        numbers.extend(number.filter(|number| format!("{number:0digits$x}") == name));
    }
    numbers.sort_unstable();
    // A folder that changes while it is read may tell a name twice.
    numbers.dedup();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{LocalStore, ObjectStore};

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn objects_are_listed_in_order_from_anywhere_and_foreign_files_are_not() {
        let name = format!("pando-data-listing-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let store = LocalStore::open(&folder.0).unwrap();
        let ids: [u128; 7] =
            [0, 5, 4096, 4096 * 20, (3 << 64) + 1, (16 << 64) + 70_000, u128::MAX - 9];
        for (n, id) in ids.iter().enumerate() {
            store.put(ObjectId(*id), &[&vec![7; n]]).unwrap();
        }
        fs::write(folder.0.join("foreign"), "x").unwrap();
        fs::write(folder.0.join("0000000000000000/0/notes"), "x").unwrap();
        // These are not spelled as the store spells numbers. If they counted, numbers would come
        // twice.
        fs::create_dir_all(folder.0.join("3/0")).unwrap();
        fs::create_dir_all(folder.0.join("0000000000000000/00")).unwrap();
        fs::write(folder.0.join("0000000000000000/0/5"), "x").unwrap();
        fs::write(folder.0.join("0000000000000000/0/00A"), "x").unwrap();
        fs::create_dir(folder.0.join("0000000000000000/0/123")).unwrap();
        for skipped in 0..ids.len() {
            let after = skipped.checked_sub(1).map(|at| ObjectId(ids[at]));
            let listed: Vec<_> = store.list(after).unwrap().map(Result::unwrap).collect();
            let rest = skipped..ids.len();
            let expected: Vec<_> = rest.map(|n| (ObjectId(ids[n]), n as u64)).collect();
            assert_eq!(listed, expected, "{skipped}");
        }
        assert_eq!(store.list(Some(ObjectId(6))).unwrap().count(), 5);
        assert_eq!(store.size(ObjectId(4096)).unwrap(), Some(2));
        assert_eq!(store.size(ObjectId(4097)).unwrap(), None);
    }
}
