//! The users that the users of a key's holder act as.

use core::fmt;
use core::str::FromStr;

use crate::identity::error::KeyError;

/// The users that the users of a key's holder act as, whatever its machine says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Squash {
    /// User 0 and group 0 act as these, as with `root_squash` of NFS.
    Root {
        /// The user instead of user 0.
        uid: u32,
        /// The group instead of group 0.
        gid: u32,
    },
    /// All users act as these, as with `all_squash` of NFS.
    All {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

impl Squash {
    /// The user and group `nobody`, to which NFS squashes.
    pub const NOBODY: u32 = 65_534;
}

/// `root:UID:GID` or `all:UID:GID`.
impl fmt::Display for Squash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { uid, gid } => write!(f, "root:{uid}:{gid}"),
            Self::All { uid, gid } => write!(f, "all:{uid}:{gid}"),
        }
    }
}

impl FromStr for Squash {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let wrong = || KeyError::NoSquash(text.to_owned());
        let mut parts = text.split(':');
        let kind = parts.next();
        let mut id = || parts.next()?.parse::<u32>().ok().filter(|id| *id != u32::MAX);
        let (uid, gid) = (id().ok_or_else(wrong)?, id().ok_or_else(wrong)?);
        let squash = match kind {
            Some("root") => Self::Root { uid, gid },
            Some("all") => Self::All { uid, gid },
            _ => return Err(wrong()),
        };
        // There is only one way to write each.
        if squash.to_string() == text { Ok(squash) } else { Err(wrong()) }
    }
}
