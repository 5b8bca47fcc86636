//! The proved identity of a connection's other side.

use std::fmt;
use std::sync::Arc;

use pando_keys::{Identity, KeyRole, Serial, Squash};
use pando_types::KeyId;

/// The proved identity of a connection's other side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// Root, or the owner of the socket's folder, over a Unix socket. May do everything.
    Owner,
    /// The holder of this key, over TLS.
    Key(Arc<Identity>),
}

impl Who {
    fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Owner => None,
            Self::Key(identity) => Some(identity),
        }
    }

    /// The id that owns the sessions of the other side. Trusted keys count as the volume's owner.
    #[must_use]
    pub fn key(&self) -> KeyId {
        match self.identity() {
            Some(identity) if !self.is_trusted() => identity.key,
            _ => KeyId::OWNER,
        }
    }

    /// The role of the other side.
    #[must_use]
    pub fn role(&self) -> KeyRole {
        self.identity().map_or(KeyRole::Admin, |identity| identity.role)
    }

    /// Whether the other side may only read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.identity().is_some_and(|identity| identity.read_only)
    }

    /// The users that its users act as, whatever its requests say.
    #[must_use]
    pub fn squash(&self) -> Option<Squash> {
        self.identity().and_then(|identity| identity.squash)
    }

    /// The serial number of its certificate.
    #[must_use]
    pub fn serial(&self) -> Option<Serial> {
        self.identity().map(|identity| identity.serial)
    }

    /// Whether it may send what only the volume's owner and its servers may.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self.role(), KeyRole::Server | KeyRole::Admin)
    }

    /// Whether it is a process of the volume: it has a server's key, or comes over a Unix socket as
    /// the owner of the folder.
    #[must_use]
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Owner) || self.role() == KeyRole::Server
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("the folder's owner"),
            Self::Key(identity) => identity.fmt(f),
        }
    }
}
