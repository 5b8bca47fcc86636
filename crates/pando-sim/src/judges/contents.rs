//! What files with objects must contain, as far as it is known.
//!
//! A file has one writer, which stores one content after another. A read must find the last content
//! acknowledged before it began, or a later one. In mode `os`, a loss of power may take what was
//! not fsynced, and leave a row without its object. Then the content is unknown. What the holder of
//! a lent part has answered may be set aside. Others may read before its holder knows, so such
//! reads are judged at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pando_types::{Errno, Ino, Name};

use crate::counts::objects::ObjectCounts;

/// The content of a file at one time.
pub type Bytes = Arc<Vec<u8>>;

/// The contents of one file.
#[derive(Debug)]
pub struct File {
    name: Name,
    /// All contents that the writer has begun to store, in order.
    states: Vec<Bytes>,
    /// Index of the content that was acknowledged last.
    stored: usize,
    /// Index of the content that was fsynced last.
    synced: Option<usize>,
}

/// All files with known contents.
#[derive(Default, Debug)]
pub struct Contents {
    files: BTreeMap<Ino, File>,
    /// Whether an acknowledged content is durable.
    is_durable: bool,
    /// Faults that were found, in words.
    pub broken: Vec<String>,
    /// What looks like faults, unless changes of that file turn out to have been set aside.
    suspected: Vec<(Ino, String)>,
    /// Files of which changes were set aside.
    set_aside: BTreeSet<Ino>,
    /// Of these, files of which no program was told.
    untold: BTreeSet<Ino>,
    /// Counts of what happened.
    pub counts: ObjectCounts,
}

/// What errors of a read mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errors {
    /// Nothing: something may be broken on purpose.
    MayCome,
    /// They are faults, since nothing is broken.
    AreFaults,
}

impl Contents {
    /// No files yet. `is_durable`: acknowledged contents are durable, as in mode `disk`.
    #[must_use]
    pub fn new(is_durable: bool) -> Self {
        Self { is_durable, ..Self::default() }
    }

    /// A file was created, and is empty.
    pub fn made(&mut self, ino: Ino, name: Name) {
        let synced = self.is_durable.then_some(0);
        self.files.insert(ino, File { name, states: vec![Bytes::default()], stored: 0, synced });
    }

    /// Takes a file out while its names change: they are unknown until [`Contents::renamed`].
    #[must_use]
    pub fn take(&mut self, ino: Ino) -> Option<File> {
        self.files.remove(&ino)
    }

    /// Puts a file back under a name that it now has. After a loss of power, what was fsynced may
    /// be found under this name or under an earlier one.
    pub fn renamed(&mut self, ino: Ino, file: File, name: Name) {
        let synced = file.synced.filter(|_| self.is_durable);
        self.files.insert(ino, File { name, synced, ..file });
    }

    /// The writer begins to store this content.
    pub fn begins(&mut self, ino: Ino, content: &[u8]) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.states.push(Arc::new(content.to_vec()));
        }
    }

    /// The content that was begun last is acknowledged.
    pub fn stored(&mut self, ino: Ino) {
        self.counts.flushed += 1;
        // A mount says `EIO` here, once, of a file of which a change was set aside.
        if self.untold.remove(&ino) {
            return self.doubt(ino);
        }
        if let Some(file) = self.files.get_mut(&ino) {
            file.stored = file.states.len() - 1;
            file.synced = if self.is_durable { Some(file.stored) } else { file.synced };
        }
    }

    /// Bytes were appended to a file of `end` bytes, and went to `at`.
    pub fn appended(&mut self, ino: Ino, end: u64, at: u64) {
        self.counts.appended += 1;
        if at != end && self.files.contains_key(&ino) {
            self.broken.push(format!("an append to {ino:?}, of {end} bytes, went to {at}"));
        }
    }

    /// The content that was begun last is acknowledged by an `fsync`.
    pub fn synced(&mut self, ino: Ino) {
        self.stored(ino);
        self.counts.synced += 1;
        if let Some(file) = self.files.get_mut(&ino) {
            file.synced = Some(file.stored);
        }
    }

    /// The file's content, or whether it exists, is no longer known.
    pub fn doubt(&mut self, ino: Ino) {
        self.counts.doubted += u64::from(self.files.remove(&ino).is_some());
    }

    /// The file was removed.
    pub fn removed(&mut self, ino: Ino) {
        self.files.remove(&ino);
    }

    /// A machine has lost power. Contents that were not fsynced are unknown from now on.
    pub fn power_lost(&mut self) {
        if !self.is_durable {
            let before = self.files.len();
            self.files.retain(|_, file| file.synced == Some(file.states.len() - 1));
            self.counts.doubted += (before - self.files.len()) as u64;
        }
    }

    /// Changes of these files were answered, and are or may be lost.
    pub fn set_aside(&mut self, files: impl Iterator<Item = Ino>) {
        let files: Vec<_> = files.collect();
        self.set_aside.extend(&files);
        self.untold.extend(files);
    }

    /// The first fault, now that all is known.
    #[must_use]
    pub fn fault(&self) -> Option<&String> {
        let is_fault = |(ino, _): &&(Ino, String)| !self.set_aside.contains(ino);
        let suspected = self.suspected.iter().find(is_fault).map(|(_, fault)| fault);
        self.broken.first().or(suspected)
    }

    /// All known files, with their names.
    #[must_use]
    pub fn all(&self) -> Vec<(Ino, Name)> {
        self.files.iter().map(|(ino, file)| (*ino, file.name.clone())).collect()
    }

    /// Index of the oldest content that a read which begins now may find.
    #[must_use]
    pub fn oldest(&self, ino: Ino) -> Option<usize> {
        self.files.get(&ino).map(|file| file.stored)
    }

    /// Judges a read that began when `oldest` was the oldest valid content.
    pub fn compare(
        &mut self,
        ino: Ino,
        oldest: usize,
        seen: &Result<Vec<u8>, Errno>,
        errors: Errors,
    ) {
        let Some(file) = self.files.get(&ino) else { return };
        let mut is_lost = file.synced.is_some();
        let fault = match seen {
            Ok(bytes) if file.states[oldest..].iter().any(|state| **state == *bytes) => None,
            Ok(bytes) => {
                let like = file.states.iter().position(|state| **state == *bytes);
                is_lost &= like < file.synced;
                let differs =
                    file.states[oldest].iter().zip(bytes).position(|(one, other)| one != other);
                Some(format!(
                    "{} bytes, like content {like:?}, other at {differs:?} than content {oldest} of {} bytes",
                    bytes.len(),
                    file.states[oldest].len()
                ))
            }
            Err(errno) => (errors == Errors::AreFaults).then(|| errno.to_string()),
        };
        self.counts.compared += u64::from(seen.is_ok());
        if let Some(fault) = fault {
            let (name, last) = (&file.name, file.states.len() - 1);
            let fault = format!(
                "contents of {name} ({ino:?}), of which content {last} was begun last, {} stored, {:?} fsynced: {fault}",
                file.stored, file.synced
            );
            // What was fsynced is never set aside.
            match is_lost {
                true => self.broken.push(fault),
                false => self.suspected.push((ino, fault)),
            }
        }
    }
}
