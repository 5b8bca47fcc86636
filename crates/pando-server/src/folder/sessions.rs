//! Sessions that this process has opened and not ended, on disk. The next process ends them, so
//! that what a killed mount had open is released.
//!
//! `run/sessions` has one decimal number a line. A last line without its end is ignored.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{fs, io};

use pando_types::SessionId;
use parking_lot::Mutex;

use crate::folder::files::replace;

/// The list of sessions, in memory and on disk.
#[derive(Debug)]
pub struct Sessions {
    path: PathBuf,
    open: Mutex<BTreeSet<SessionId>>,
}

impl Sessions {
    /// Reads the list that an earlier process has left, to go on with it.
    pub fn load(path: PathBuf) -> io::Result<Self> {
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            result => result?,
        };
        let whole_lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let open = whole_lines.filter_map(|line| line.parse().ok().map(SessionId)).collect();
        Ok(Self { path, open: Mutex::new(open) })
    }

    /// Path of the list's file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The sessions that are not ended.
    pub fn open(&self) -> Vec<SessionId> {
        self.open.lock().iter().copied().collect()
    }

    /// Adds a session. The list is durable when this returns.
    pub fn begun(&self, session: SessionId) -> io::Result<()> {
        let mut open = self.open.lock();
        open.insert(session);
        self.store(&open)
    }

    /// Removes a session. The list is durable when this returns.
    pub fn ended(&self, session: SessionId) -> io::Result<()> {
        let mut open = self.open.lock();
        open.remove(&session);
        self.store(&open)
    }

    fn store(&self, open: &BTreeSet<SessionId>) -> io::Result<()> {
        let text: String = open.iter().map(|session| format!("{session}\n")).collect();
        replace(&self.path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_ended_is_found_again() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("sessions");
        let sessions = Sessions::load(path.clone()).unwrap();
        sessions.begun(SessionId(7)).unwrap();
        sessions.begun(SessionId(9)).unwrap();
        sessions.ended(SessionId(7)).unwrap();
        assert_eq!(Sessions::load(path.clone()).unwrap().open(), [SessionId(9)]);
        fs::write(&path, "9\n12").unwrap();
        assert_eq!(Sessions::load(path).unwrap().open(), [SessionId(9)]);
    }
}
