//! One authority takes another's place.

use std::fs;
use std::path::{Path, PathBuf};

use crate::authority::{Authority, authority_of};
use crate::bundle::Bundle;
use crate::error::KeyError;
use crate::folder::{AUTHORITIES, AUTHORITY_KEY, DAYS, KeysFolder};
use crate::identity::KeyRole;
use crate::issued::Issued;
use crate::trust::authorities;
use crate::{guard, pem};

/// What an ended authority is called among what was revoked.
const ENDED_AUTHORITY: &str = "authority";

impl KeysFolder {
    /// Makes another authority beside the one whose key this is. Its key takes the place of the old
    /// one's: here, or in the file that was named. The volume's own keys are its first.
    pub fn rotate(&self, old: &Authority, key: Option<&Path>) -> Result<Authority, KeyError> {
        let lock = guard::lock(&self.path)?;
        let here = self.path.join(AUTHORITY_KEY);
        let at = key.unwrap_or(&here);
        let next = match self.trust()?.authorities.len() {
            0 | 1 => self.begin_rotation(old, at)?,
            // A rotation was stopped before its key took its place.
            _ => self.take_draft(at)?.ok_or(KeyError::Rotating)?,
        };
        drop(lock);
        for path in [KeyRole::Server, KeyRole::Admin].map(|role| self.own(role)) {
            if path.exists() {
                let name = Bundle::read(&path)?.identity.name;
                self.renew_own(&path, &self.renew(&next, &name, DAYS, Vec::new())?)?;
            }
        }
        Ok(next)
    }

    /// The key is written before anything counts by it: a place that cannot be written is told
    /// before anything has changed, and a rotation that is stopped later is gone on with from
    /// there.
    fn begin_rotation(&self, old: &Authority, at: &Path) -> Result<Authority, KeyError> {
        self.check_unheard(old.serial())?;
        let (next, draft) = (old.succeed()?, draft_of(at));
        if at.parent() == Some(&self.path) {
            guard::write_for_owner(&draft, &next.key_pem())?;
        } else {
            guard::write(&draft, &next.key_pem())?;
        }
        // With both certificates each key is of one of them, the old one's too.
        self.write(AUTHORITIES, &next.certificates_pem())?;
        self.take_draft(at)?.ok_or(KeyError::NoAuthorityKey(draft))
    }

    /// The newest authority's key takes its place, if it waits for that.
    fn take_draft(&self, at: &Path) -> Result<Option<Authority>, KeyError> {
        let draft = draft_of(at);
        if !draft.exists() {
            return Ok(None);
        }
        let next = match Authority::read(&self.path.join(AUTHORITIES), &draft) {
            Ok(next) => next,
            // It was stopped before its certificate was there.
            Err(KeyError::OtherAuthority { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if self.trust()?.newest() != Some(next.serial()) {
            return Ok(None);
        }
        fs::rename(&draft, at).map_err(|error| KeyError::Io { path: at.to_owned(), error })?;
        guard::sync_folder(guard::folder_of(at))?;
        Ok(Some(next))
    }

    /// Ends the older of two authorities, and with it all that it issued: it is among what is
    /// revoked, so that it ends also where a key's file goes on to name it. Unless it is forced,
    /// each name must have a certificate of the newer one. What it ended.
    pub fn finish_rotation(&self, is_forced: bool) -> Result<Vec<Issued>, KeyError> {
        let _lock = guard::lock(&self.path)?;
        self.take_draft(&self.path.join(AUTHORITY_KEY))?;
        // The newer one comes first. What a finish that was stopped has revoked already is still in
        // the file.
        let authorities = authorities(&self.path)?;
        let [newer, older @ ..] = authorities.as_slice() else {
            return Err(KeyError::NotRotating);
        };
        if older.is_empty() {
            return Err(KeyError::NotRotating);
        }
        let serial = authority_of(newer)?.1;
        let (kept, ended): (Vec<_>, Vec<_>) =
            self.valid()?.into_iter().partition(|issued| issued.authority == serial);
        let is_renewed =
            |issued: &&Issued| kept.iter().any(|kept| kept.identity.name == issued.identity.name);
        let mut names: Vec<_> = ended.iter().filter(|issued| !is_renewed(issued)).collect();
        names.dedup_by(|a, b| a.identity.name == b.identity.name);
        if !names.is_empty() && !is_forced {
            let names = names.iter().map(|issued| issued.identity.name.clone());
            return Err(KeyError::InUse(names.collect()));
        }
        let older: Result<Vec<_>, _> = older.iter().map(|one| Ok(authority_of(one)?.1)).collect();
        let revoked = self.trust()?.revoked;
        let older = older?.into_iter().filter(|serial| !revoked.contains(serial));
        self.write_revoked(older.map(|serial| (serial, ENDED_AUTHORITY)))?;
        for path in [KeyRole::Server, KeyRole::Admin].map(|role| self.own(role)) {
            if path.exists() {
                let mut bundle = Bundle::read(&path)?;
                bundle.chain.clear();
                bundle.authorities.retain(|authority| authority == newer);
                guard::write_for_owner(&path, &bundle.to_pem())?;
            }
        }
        // Last: by it a finish that was stopped is known for one.
        self.write(AUTHORITIES, &pem::certificate(newer))?;
        Ok(ended)
    }
}

/// Where the next authority's key waits for its certificate.
fn draft_of(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
