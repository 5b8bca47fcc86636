//! What can be wrong with keys.

use std::io;
use std::path::PathBuf;

use crate::identity::role::{KeyRole, NAME_MAX};
use crate::identity::serial::Serial;

/// Why there is no key, or no valid one.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Other users may read or write a file that only its owner may.
    #[error(
        "{path} is open to others (mode {mode:o}): `chmod 600 {path}` first, and consider whether \
         others have read it",
        path = .path.display()
    )]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Other users may write a file or folder that decides which connections are accepted.
    #[error("{path} may be written by others (mode {mode:o}): `chmod go-w {path}` first", path = .path.display())]
    Writable {
        /// Path of the file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user owns the file.
    #[error("{} belongs to user {uid}, who could change it: only files of your own, of root or of the folder's owner are taken", .path.display())]
    Owner {
        /// Path of the file.
        path: PathBuf,
        /// User id of its owner.
        uid: u32,
    },
    /// The content of a file is wrong.
    #[error("{}: {what}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A certificate is not one of Pando's.
    #[error("not a certificate of Pando: {0}")]
    Certificate(String),
    /// The URI in a certificate is not one of Pando's.
    #[error("not a name of Pando's certificates: `{uri}`: {what}")]
    Uri {
        /// The URI.
        uri: String,
        /// What is wrong with it.
        what: String,
    },
    /// A text is no valid name of a key.
    #[error("`{0}` is no name for a key: write 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -")]
    NoName(String),
    /// A text is no role.
    #[error("`{0}` is no role: write client, admin or server")]
    NoRole(String),
    /// A text is no valid squash option.
    #[error(
        "`{0}` names no user for a key: write root:UID:GID or all:UID:GID, each below 4294967295"
    )]
    NoSquash(String),
    /// A text is no serial number.
    #[error("`{0}` is no serial number: write its 32 hexadecimal digits")]
    NoSerial(String),
    /// Only keys of clients can be restricted.
    #[error("a key of role {0} cannot be read-only or squashed: it may do everything")]
    OptionsOfRole(KeyRole),
    /// The key has another role than the one needed.
    #[error("the key's role is {0}, and {1} is wanted: `pando auth add NAME --role {1}` makes one")]
    WrongRole(KeyRole, KeyRole),
    /// Servers name more revoked keys than a process takes in.
    #[error(
        "other servers have named more than {0} revoked keys, so this server accepts no key any \
         more. Change the authority (`pando auth rotate`), remove `run/revoked` in the folders of \
         all servers, and start them again"
    )]
    TooManyHeard(usize),
    /// The list of revoked keys is full.
    #[error(
        "{0} keys are revoked, which is the limit. End this one with its authority instead: \
         `pando auth rotate`, renew all others, `pando auth rotate --finish --force`"
    )]
    TooManyRevoked(usize),
    /// The system has no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(String),
    /// A key or certificate cannot be made.
    #[error("cannot make a key or certificate: {0}")]
    Make(String),
    /// The volume has no keys yet.
    #[error("there is no {}: `pando auth init FOLDER` makes the volume's keys", .0.display())]
    NoKeys(PathBuf),
    /// The volume has keys already.
    #[error("{} exists: the volume has its keys already", .0.display())]
    HasKeys(PathBuf),
    /// The authority's key is somewhere else.
    #[error("the authority's key is not in {}: name the file that it was moved to with --ca FILE", .0.display())]
    NoAuthorityKey(PathBuf),
    /// The key belongs to another authority.
    #[error("{} is not the key of the authority in {}", .key.display(), .certificate.display())]
    OtherAuthority {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The keys are of another volume.
    #[error("{} has keys of volume {found}, and this is {wanted}", .path.display())]
    OtherVolume {
        /// Path of the file.
        path: PathBuf,
        /// The volume of its keys.
        found: String,
        /// The volume that is needed.
        wanted: String,
    },
    /// A valid key of this name exists.
    #[error(
        "there is a key `{0}` that is valid: `pando auth renew {0}` makes a new certificate for it, `pando auth revoke {0}` ends it"
    )]
    Exists(String),
    /// There is no key of this name or serial number.
    #[error("no valid key `{0}` was issued: `pando auth list` shows what was")]
    Unknown(String),
    /// The volume has two authorities already.
    #[error(
        "the volume has two authorities already: `pando auth rotate --finish` drops the old one"
    )]
    Rotating,
    /// This volume's processes have heard that the authority is revoked.
    #[error(
        "a server has reported that the authority {serial} is revoked ({}): all its keys would end \
         once there is a newer authority. A server's key may be stolen: revoke that key, and \
         remove this line from `run/revoked` in the folders of all servers while they do not run",
        .path.display()
    )]
    AuthorityHeard {
        /// Serial number of the authority.
        serial: Serial,
        /// The file that says so.
        path: PathBuf,
    },
    /// The volume has only one authority.
    #[error("the volume has one authority: `pando auth rotate` makes another")]
    NotRotating,
    /// Certificates of the old authority are still in use.
    #[error("these have certificates of the old authority only: {}; renew or revoke them, or say --force to end them", .0.join(", "))]
    InUse(Vec<String>),
}
