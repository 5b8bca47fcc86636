//! Which keys are revoked: what the volume's folder of keys says, and what other servers have told. That is kept in a file
//! of this process's folder, `run/revoked`: a serial number a line.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pando_keys::{Serial, Trust};
use pando_net::Keys;
use parking_lot::Mutex;

use super::guests::Guests;
use super::links::Links;
use super::say;

/// See the module. Without a key nobody comes who could be revoked.
pub(super) struct Revoked {
    keys: Option<Keys>,
    file: PathBuf,
    /// What connections that exist were judged by.
    judged: Mutex<Option<Trust>>,
    /// The last failure to read the folder; each is told once.
    failure: Mutex<String>,
}

impl Revoked {
    pub(super) fn new(keys: Option<Keys>, run: &Path) -> Self {
        let file = run.join("revoked");
        if let Some(keys) = &keys {
            let text = fs::read_to_string(&file).unwrap_or_default();
            keys.learn(text.lines().filter_map(|line| line.parse().ok()));
        }
        let judged = Mutex::new(keys.as_ref().and_then(|keys| keys.trust().ok()));
        Self { keys, file, judged, failure: Mutex::default() }
    }

    /// Takes over what another server has told.
    pub(super) fn learn(&self, heard: &[[u8; 16]]) {
        let Some(keys) = &self.keys else { return };
        if keys.learn(heard.iter().map(|serial| Serial(*serial)))
            && let Err(error) = self.write(&keys.heard())
        {
            say(&format!("cannot note which keys are revoked: {error}"));
        }
    }

    /// What other servers are told.
    pub(super) fn told(&self) -> Vec<[u8; 16]> {
        self.keys.as_ref().map_or_else(Vec::new, Keys::told_revoked)
    }

    /// Looks whether anything has changed. Then connections end whose keys count no more; those to and from other servers
    /// end, too, and begin anew, so that all servers hear of it.
    pub(super) fn look(&self, guests: &Guests, links: &Links) {
        let Some(keys) = &self.keys else { return };
        let trust = match keys.trust() {
            Ok(trust) => trust,
            Err(error) => {
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
        if judged.as_ref() == Some(&trust) {
            return;
        }
        let has_others = judged.as_ref().is_some_and(|old| old.authorities != trust.authorities);
        guests.cut(&trust.revoked, has_others);
        links.reopen();
        *judged = Some(trust);
    }

    fn write(&self, serials: &BTreeSet<Serial>) -> io::Result<()> {
        let draft = self.file.with_extension(format!("new-{}", std::process::id()));
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
        let text: String = serials.iter().map(|serial| format!("{serial}\n")).collect();
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &self.file)
    }
}
