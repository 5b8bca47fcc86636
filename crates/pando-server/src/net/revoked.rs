//! Which keys are revoked: by the volume's folder of keys, and by other servers. The latter are
//! kept in `run/revoked` of this process's folder, one serial number a line.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use pando_keys::{Serial, Trust};
use pando_net::Keys;
use parking_lot::Mutex;

use super::guests::Guests;
use super::links::Links;
use super::say;
use super::server::StartError;

/// The revoked keys. A process without a key has none, since no connection to it has a key.
pub(super) struct Revoked {
    keys: Option<Keys>,
    file: PathBuf,
    /// The trust by which existing connections were judged.
    judged: Mutex<Option<Arc<Trust>>>,
    /// Whether serial numbers were heard that the file does not have.
    is_unwritten: AtomicBool,
    pace: Mutex<Pace>,
    /// The last failure to read the folder. Each is logged once.
    failure: Mutex<String>,
}

impl Revoked {
    /// Reads what earlier processes have heard. Fails if that cannot be read: else revoked keys
    /// would count again.
    pub(super) fn new(keys: Option<Keys>, run: &Path) -> Result<Self, StartError> {
        let file = run.join("revoked");
        if let Some(keys) = &keys {
            keys.learn(read(&file)?);
        }
        let judged = Mutex::new(keys.as_ref().and_then(|keys| keys.trust().ok()));
        let (is_unwritten, pace, failure) = Default::default();
        Ok(Self { keys, file, judged, is_unwritten, pace, failure })
    }

    /// Takes over what another server has told. Later handshakes judge by it. [`Revoked::look`]
    /// judges the existing connections.
    pub(super) fn learn(&self, heard: &[[u8; 16]]) {
        let Some(keys) = &self.keys else { return };
        if keys.learn(heard.iter().map(|serial| Serial(*serial))) {
            self.is_unwritten.store(true, Ordering::Release);
        }
    }

    /// Writes the serial numbers that were heard, if the file lacks any.
    pub(super) fn note(&self) {
        let Some(keys) = &self.keys else { return };
        if self.is_unwritten.swap(false, Ordering::AcqRel)
            && let Err(why) = self.write(keys.heard())
        {
            say(&format!("cannot note which keys are revoked: {why}"));
        }
    }

    /// The serial numbers that others are sent.
    pub(super) fn told(&self) -> Vec<[u8; 16]> {
        self.keys.as_ref().map_or_else(Vec::new, Keys::told_revoked)
    }

    /// Looks whether anything has changed. If so, ends connections with revoked keys, and tells
    /// clients. Connections to and from other servers end, too, and begin anew, so that all servers
    /// hear. Connections with expired certificates end in any case.
    pub(super) fn look(&self, guests: &Guests, links: &Links) {
        let Some(keys) = &self.keys else { return };
        let now = SystemTime::now();
        guests.expire(now);
        links.expire(now);
        let trust = match keys.trust() {
            Ok(trust) => trust,
            Err(error) => {
                self.note();
                // No new connection is admitted. Existing ones that are known to be revoked must
                // end all the same.
                guests.cut_revoked(&keys.revoked_in_any_case());
                let why = error.to_string();
                let mut last = self.failure.lock();
                if *last != why {
                    say(&format!("nobody is let in over TCP: {why}"));
                    *last = why;
                }
                return;
            }
        };
        self.failure.lock().clear();
        let mut judged = self.judged.lock();
        let is_same = judged.as_ref() == Some(&trust);
        if is_same && !self.is_unwritten.load(Ordering::Acquire)
            || !self.pace.lock().is_due(Instant::now())
        {
            return;
        }
        self.note();
        if is_same {
            return;
        }
        let has_others = judged.as_ref().is_some_and(|old| old.authorities != trust.authorities);
        let is_known =
            |serial: &&Serial| judged.as_ref().is_some_and(|old| old.revoked.contains(*serial));
        let news = trust.revoked.iter().filter(|serial| !is_known(serial));
        guests.cut(&trust.revoked, has_others);
        guests.tell(news.map(|serial| serial.0).collect());
        links.reopen();
        *judged = Some(trust);
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
struct Pace(Option<Instant>);

impl Pace {
    /// Whether it may be done at `now`. If so, notes that it is.
    fn is_due(&mut self, now: Instant) -> bool {
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
