//! Who is at the other end of a connection.

use std::fmt;
use std::sync::Arc;

use pando_keys::{Identity, KeyRole, Serial, Squash};
use pando_types::KeyId;

/// Whom the other end of a connection has proved to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// Over a Unix socket: root, or the owner of the folder that the socket is in. May do
    /// everything.
    Owner,
    /// Over TLS: the holder of this key.
    Key(Arc<Identity>),
}

impl Who {
    fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Owner => None,
            Self::Key(identity) => Some(identity),
        }
    }

    /// What owns the sessions that it opens. Whom the volume trusts is as good as its owner.
    #[must_use]
    pub fn key(&self) -> KeyId {
        match self.identity() {
            Some(identity) if !self.is_trusted() => identity.key,
            _ => KeyId::OWNER,
        }
    }

    /// As what it comes.
    #[must_use]
    pub fn role(&self) -> KeyRole {
        self.identity().map_or(KeyRole::Admin, |identity| identity.role)
    }

    /// Whether it may change nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.identity().is_some_and(|identity| identity.read_only)
    }

    /// As whom it acts, whatever it says.
    #[must_use]
    pub fn squash(&self) -> Option<Squash> {
        self.identity().and_then(|identity| identity.squash)
    }

    /// Which certificate it has.
    #[must_use]
    pub fn serial(&self) -> Option<Serial> {
        self.identity().map(|identity| identity.serial)
    }

    /// Whether it may say what only the volume's owner and its servers may.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self.role(), KeyRole::Server | KeyRole::Admin)
    }

    /// Whether it is a process of the volume: a server's key, or one on the volume's own folder.
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
