//! Rotation: one authority takes another's place.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::bundle::Bundle;
use crate::files::{guard, pem};
use crate::folder::authority::{Authority, authority_of};
use crate::folder::issued::Issued;
use crate::folder::keys::{DAYS, KeysFolder};
use crate::folder::names::{AUTHORITIES, AUTHORITY_KEY};
use crate::folder::trust::authorities;
use crate::identity::error::KeyError;
use crate::identity::role::KeyRole;

/// The name of an ended authority in the list of what is revoked.
const ENDED_AUTHORITY: &str = "authority";

/// What the end of a rotation does about names that have no certificate of the newer authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfInUse {
    /// It fails with [`KeyError::InUse`].
    Refuse,
    /// It ends their certificates.
    End,
}

impl KeysFolder {
    /// Makes another authority beside `old`. Its key replaces the old one's: in this folder, or in
    /// the file `key`. The volume's own keys are the first that it issues.
    pub fn rotate(&self, old: &Authority, key: Option<&Path>) -> Result<Authority, KeyError> {
        let lock = guard::lock(&self.path)?;
        let here = self.path.join(AUTHORITY_KEY);
        let at = key.unwrap_or(&here);
        let next = match self.trust()?.authorities.len() {
            0 | 1 => self.begin_rotation(old, at)?,
            // An earlier rotation was stopped before its key took its place.
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

    /// Writes the new key before any certificate depends on it. So a place that cannot be written
    /// is reported before anything has changed. A rotation that is stopped later can go on from
    /// there.
    fn begin_rotation(&self, old: &Authority, at: &Path) -> Result<Authority, KeyError> {
        self.check_unheard(old.serial())?;
        let (next, draft) = (old.succeed()?, draft_of(at));
        if at.parent() == Some(&self.path) {
            guard::write_for_owner(&draft, &next.key_pem())?;
        } else {
            guard::write(&draft, &next.key_pem())?;
        }
        // With both certificates in the file, each key belongs to one of them, the old one's too.
        self.write(AUTHORITIES, &next.certificates_pem())?;
        self.take_draft(at)?.ok_or(KeyError::NoAuthorityKey(draft))
    }

    /// Gives the newest authority's key its place, if that key waits for it.
    fn take_draft(&self, at: &Path) -> Result<Option<Authority>, KeyError> {
        let draft = draft_of(at);
        if !draft.exists() {
            return Ok(None);
        }
        let next = match Authority::read(&self.path.join(AUTHORITIES), &draft) {
            Ok(next) => next,
            // The rotation was stopped before the new certificate was written.
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

    /// Ends the older of two authorities, and with it all that it issued. It is listed as revoked,
    /// so that it also ends where a key's file still names it. Returns the certificates that it
    /// ended.
    pub fn finish_rotation(&self, if_in_use: IfInUse) -> Result<Vec<Issued>, KeyError> {
        let _lock = guard::lock(&self.path)?;
        self.take_draft(&self.path.join(AUTHORITY_KEY))?;
        // The newer one comes first. An older one that a stopped `finish_rotation` has revoked
        // already is still in the file.
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
        if !names.is_empty() && if_in_use == IfInUse::Refuse {
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
        // Last: until then a stopped `finish_rotation` can be recognised.
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
