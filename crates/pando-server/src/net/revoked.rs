//! Which keys are revoked: what the volume's folder of keys says, and what other servers have told. That is kept in a file
//! of this process's folder, `run/revoked`: a serial number a line.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pando_keys::{Serial, Trust};
use pando_net::Keys;
use parking_lot::Mutex;

use super::guests::Guests;
use super::links::Links;
use super::say;
use super::server::StartError;

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
    /// Fails if what was heard before cannot be read: without it, keys that are revoked would count again.
    pub(super) fn new(keys: Option<Keys>, run: &Path) -> Result<Self, StartError> {
        let file = run.join("revoked");
        if let Some(keys) = &keys {
            keys.learn(read(&file)?);
        }
        let judged = Mutex::new(keys.as_ref().and_then(|keys| keys.trust().ok()));
        Ok(Self { keys, file, judged, failure: Mutex::default() })
    }

    /// Takes over what another server has told.
    pub(super) fn learn(&self, heard: &[[u8; 16]]) {
        let Some(keys) = &self.keys else { return };
        if keys.learn(heard.iter().map(|serial| Serial(*serial)))
            && let Err(why) = self.write(keys.heard())
        {
            say(&format!("cannot note which keys are revoked: {why}"));
        }
    }

    /// What others are told.
    pub(super) fn told(&self) -> Vec<[u8; 16]> {
        self.keys.as_ref().map_or_else(Vec::new, Keys::told_revoked)
    }

    /// Looks whether anything has changed. Then connections end whose keys count no more; those to and from other servers
    /// end, too, and begin anew, so that all servers hear of it. Clients are told. Connections end with their certificates in any
    /// case.
    pub(super) fn look(&self, guests: &Guests, links: &Links) {
        let Some(keys) = &self.keys else { return };
        let now = SystemTime::now();
        guests.expire(now);
        links.expire(now);
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
        let is_known =
            |serial: &&Serial| judged.as_ref().is_some_and(|old| old.revoked.contains(*serial));
        let news = trust.revoked.iter().filter(|serial| !is_known(serial));
        guests.cut(&trust.revoked, has_others);
        guests.tell(news.map(|serial| serial.0).collect());
        links.reopen();
        *judged = Some(trust);
    }

    /// What the file has besides stays: other processes of the folder write there, too.
    fn write(&self, mut serials: BTreeSet<Serial>) -> Result<(), String> {
        serials.extend(read(&self.file).map_err(|error| error.to_string())?);
        let draft = self.file.with_extension(format!("new-{}", std::process::id()));
        let text: String = serials.iter().map(|serial| format!("{serial}\n")).collect();
        let write = || {
            let mut options = fs::OpenOptions::new();
            let mut file =
                options.create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &self.file)
        };
        write().map_err(|error: io::Error| format!("{}: {error}", self.file.display()))
    }
}

/// What such a file says; nothing, if there is none. It is never written empty, and always whole.
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
