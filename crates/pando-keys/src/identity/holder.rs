//! The holder of a key, and what the key allows.

use core::fmt;

use pando_types::KeyId;

use crate::identity::error::KeyError;
use crate::identity::role::{KeyRole, NAME_MAX};
use crate::identity::serial::Serial;
use crate::identity::squash::Squash;

/// What a certificate says of its holder. Only the authority's signature makes it true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The only volume that it is valid for.
    pub volume: [u8; 16],
    /// The role of its holder.
    pub role: KeyRole,
    /// Its name for people: 1 to [`NAME_MAX`] of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// The id that owns the sessions of its holder. Random, never 0. A renewed certificate keeps
    /// it.
    pub key: KeyId,
    /// Serial number of the certificate.
    pub serial: Serial,
    /// Whether its holder may only read. For clients only.
    pub read_only: bool,
    /// The users that its holder's users act as. For clients only.
    pub squash: Option<Squash>,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` ({})", self.role, self.name, self.serial)
    }
}

/// Whether a key may have this name.
pub fn check_name(name: &str) -> Result<(), KeyError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(KeyError::NoName(name.to_owned()))
    }
}
