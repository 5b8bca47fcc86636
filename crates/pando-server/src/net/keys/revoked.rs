//! Which keys are revoked: by the volume's folder of keys, and by other servers. The latter are
//! kept in `run/revoked` of this process's folder, one serial number a line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use pando_keys::{Serial, Trust};
use pando_net::Keys;
use parking_lot::Mutex;

use crate::common::log::say;
use crate::net::error::StartError;

/// The revoked keys. A process without a key has none, since no connection to it has a key.
pub(crate) struct Revoked {
    pub(crate) keys: Option<Keys>,
    pub(crate) file: PathBuf,
    /// The trust by which existing connections were judged.
    pub(crate) judged: Mutex<Option<Arc<Trust>>>,
    /// Whether serial numbers were heard that the file does not have.
    pub(crate) is_unwritten: AtomicBool,
    pub(crate) pace: Mutex<Pace>,
    /// The last failure to read the folder. Each is logged once.
    pub(crate) failure: Mutex<String>,
    /// Why the file could not be written last time. Each reason is logged once.
    unwritten_why: Mutex<Option<String>>,
}

impl Revoked {
    /// Reads what earlier processes have heard. Fails if that cannot be read: else revoked keys
    /// would count again.
    pub(crate) fn new(keys: Option<Keys>, run: &Path) -> Result<Self, StartError> {
        let file = run.join("revoked");
        if let Some(keys) = &keys {
            keys.learn(read(&file)?);
        }
        let judged = Mutex::new(keys.as_ref().and_then(|keys| keys.trust().ok()));
        let (is_unwritten, pace, failure, unwritten_why) = Default::default();
        Ok(Self { keys, file, judged, is_unwritten, pace, failure, unwritten_why })
    }

    /// Takes over what another server has told. Later handshakes judge by it. [`Revoked::look`]
    /// judges the existing connections.
    pub(crate) fn learn(&self, heard: &[[u8; 16]]) {
        let Some(keys) = &self.keys else { return };
        if keys.learn(heard.iter().map(|serial| Serial(*serial))) {
            self.is_unwritten.store(true, Ordering::Release);
        }
    }

    /// Writes the serial numbers that were heard, if the file lacks any.
    pub(crate) fn note(&self) {
        let Some(keys) = &self.keys else { return };
        if !self.is_unwritten.swap(false, Ordering::AcqRel) {
            return;
        }
        let failure = self.write(keys.heard()).err();
        if failure.is_some() {
            // The next look tries again.
            self.is_unwritten.store(true, Ordering::Release);
        }
        let mut last = self.unwritten_why.lock();
        if let Some(why) = &failure
            && *last != failure
        {
            say(&format!("cannot store the list of revoked keys: {why}"));
        }
        *last = failure;
    }

    /// The serial numbers that others are sent.
    pub(crate) fn told(&self) -> Vec<[u8; 16]> {
        self.keys.as_ref().map_or_else(Vec::new, Keys::told_revoked)
    }

    /// Adds the serial numbers to the file. Those of other processes of the folder stay in it. The
    /// folder may belong to another user: no link in it is followed.
    fn write(&self, mut serials: BTreeSet<Serial>) -> Result<(), String> {
        let why = |error: &dyn std::error::Error| error.to_string();
        let run = self.file.parent().unwrap_or(&self.file);
        let _lock = pando_keys::lock(run).map_err(|error| why(&error))?;
        serials.extend(read(&self.file).map_err(|error| why(&error))?);
        let text: String = serials.iter().map(|serial| format!("{serial}\n")).collect();
        pando_keys::write_for_owner(&self.file, &text).map_err(|error| why(&error))
    }
}

/// How often revocations are written, and connections judged anew. The holder of a server's key
/// could otherwise send one serial number after the other.
const EVERY: Duration = Duration::from_secs(1);

/// When this was done last.
#[derive(Default)]
pub(crate) struct Pace(Option<Instant>);

impl Pace {
    /// Whether it may be done at `now`. If so, notes that it is.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.saturating_duration_since(last) >= EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Reads a file of serial numbers. Without a file there are none. The file is never empty, and
/// always whole.
fn read(file: &Path) -> Result<BTreeSet<Serial>, StartError> {
    let wrong = |why: String| StartError::Revoked { path: file.to_owned(), why };
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(wrong(error.to_string())),
    };
    if !text.ends_with('\n') {
        return Err(wrong("its end is missing".to_owned()));
    }
    let lines = text.lines().enumerate();
    lines
        .map(|(at, line)| {
            line.parse().map_err(|_| wrong(format!("line {} is no serial number", at + 1)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_without_end_is_acted_upon_once_a_second() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let due: Vec<u64> = (0..50)
            .filter(|fifth| pace.is_due(begin + Duration::from_millis(200 * fifth)))
            .collect();
        assert_eq!(due, (0..10).map(|second| 5 * second).collect::<Vec<_>>());
    }
}
