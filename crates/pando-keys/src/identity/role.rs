//! The role of a key's holder, and how long its name may be.

use core::fmt;

/// Longest name of a key, bytes.
pub const NAME_MAX: usize = 64;

/// The role of a key's holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyRole {
    /// Serves shards, and speaks to other servers.
    Server,
    /// Sends questions and commands that only the volume's owner may. Mounts on behalf of the users
    /// that its machine's kernel names.
    Admin,
    /// Mounts, within the limits of its key.
    Client,
}

impl fmt::Display for KeyRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "server",
            Self::Admin => "admin",
            Self::Client => "client",
        })
    }
}
