//! What files with objects must contain, as far as anybody knows.
//!
//! A file has one writer, who stores one content after the other. Who reads it finds the last that
//! was acknowledged before, or a later one. A loss of power in mode `os` may take what was not
//! fsynced, and leave a row whose object is lost: then nobody knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use pando_types::{Errno, Ino, Name};

use super::counts::ObjectCounts;

/// One content.
pub type Bytes = Arc<Vec<u8>>;

/// Of one file.
#[derive(Debug)]
pub struct File {
    name: Name,
    /// Each that was begun to be stored, in order.
    states: Vec<Bytes>,
    /// Which of them was acknowledged last.
    stored: usize,
    /// Which of them was fsynced last.
    synced: Option<usize>,
}

/// All files of which it is known what is in them.
#[derive(Default, Debug)]
pub struct Contents {
    files: BTreeMap<Ino, File>,
    /// What is acknowledged is durable.
    is_durable: bool,
    /// What is not as it has to be, in words.
    pub broken: Vec<String>,
    /// How often what happened.
    pub counts: ObjectCounts,
}

impl Contents {
    /// None yet. `is_durable`: in mode `disk`.
    #[must_use]
    pub fn new(is_durable: bool) -> Self {
        Self { is_durable, ..Self::default() }
    }

    /// A file was made, and is empty.
    pub fn made(&mut self, ino: Ino, name: Name) {
        let synced = self.is_durable.then_some(0);
        self.files.insert(ino, File { name, states: vec![Bytes::default()], stored: 0, synced });
    }

    /// Its name changes: nobody knows which it has, until [`Contents::renamed`].
    #[must_use]
    pub fn take(&mut self, ino: Ino) -> Option<File> {
        self.files.remove(&ino)
    }

    /// It has another name. What was fsynced by then is to be found by the old one after a loss of
    /// power, or by this one.
    pub fn renamed(&mut self, ino: Ino, file: File, name: Name) {
        let synced = file.synced.filter(|_| self.is_durable);
        self.files.insert(ino, File { name, synced, ..file });
        self.counts.renamed += 1;
    }

    /// Its writer begins to store this.
    pub fn begins(&mut self, ino: Ino, content: &[u8]) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.states.push(Arc::new(content.to_vec()));
        }
    }

    /// That is acknowledged; `is_synced`: by an `fsync`.
    pub fn stored(&mut self, ino: Ino, is_synced: bool) {
        self.counts.flushed += 1;
        self.counts.synced += u64::from(is_synced);
        let is_synced = is_synced || self.is_durable;
        if let Some(file) = self.files.get_mut(&ino) {
            file.stored = file.states.len() - 1;
            file.synced = if is_synced { Some(file.stored) } else { file.synced };
        }
    }

    /// Nobody knows any more what is in it, or whether it is there.
    pub fn doubt(&mut self, ino: Ino) {
        self.counts.doubted += u64::from(self.files.remove(&ino).is_some());
    }

    /// It is no more.
    pub fn removed(&mut self, ino: Ino) {
        self.files.remove(&ino);
    }

    /// A machine has lost power.
    pub fn power_lost(&mut self) {
        if !self.is_durable {
            let before = self.files.len();
            self.files.retain(|_, file| file.synced == Some(file.states.len() - 1));
            self.counts.doubted += (before - self.files.len()) as u64;
        }
    }

    /// Files, with their names.
    #[must_use]
    pub fn all(&self) -> Vec<(Ino, Name)> {
        self.files.iter().map(|(ino, file)| (*ino, file.name.clone())).collect()
    }

    /// From which content on who begins to read a file now may find it.
    #[must_use]
    pub fn oldest(&self, ino: Ino) -> Option<usize> {
        self.files.get(&ino).map(|file| file.stored)
    }

    /// Somebody has read a file. `must`: an error is none of the network's.
    pub fn compare(&mut self, ino: Ino, oldest: usize, seen: &Result<Vec<u8>, Errno>, must: bool) {
        let Some(file) = self.files.get(&ino) else { return };
        let fault = match seen {
            Ok(bytes) if file.states[oldest..].iter().any(|state| **state == *bytes) => None,
            Ok(bytes) => {
                let like = file.states.iter().position(|state| **state == *bytes);
                let differs =
                    file.states[oldest].iter().zip(bytes).position(|(one, other)| one != other);
                Some(format!(
                    "{} bytes, like content {like:?}, other at {differs:?} than content {oldest} of {} bytes",
                    bytes.len(),
                    file.states[oldest].len()
                ))
            }
            Err(errno) => must.then(|| errno.to_string()),
        };
        self.counts.compared += u64::from(seen.is_ok());
        if let Some(fault) = fault {
            let (name, last) = (&file.name, file.states.len() - 1);
            self.broken.push(format!(
                "contents of {name} ({ino:?}), of which content {last} was begun last, {} stored, {:?} fsynced: {fault}",
                file.stored, file.synced
            ));
        }
    }
}
