//! The holder of a key, and what a key allows.

use core::fmt;
use core::str::FromStr;

use pando_types::KeyId;
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::KeyError;
use crate::serial::Serial;

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

impl FromStr for KeyRole {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text {
            "server" => Ok(Self::Server),
            "admin" => Ok(Self::Admin),
            "client" => Ok(Self::Client),
            _ => Err(KeyError::NoRole(text.to_owned())),
        }
    }
}

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

/// What a certificate says. Its signature and times are not checked here, but in the handshake.
pub fn identity_of(certificate: &CertificateDer<'_>) -> Result<Identity, KeyError> {
    let parsed = parse(certificate)?;
    let wrong = |what: &str| KeyError::Certificate(what.to_owned());
    if parsed.is_ca() {
        return Err(wrong("it is an authority's"));
    }
    let serial = <[u8; 16]>::try_from(parsed.raw_serial())
        .map_err(|_| wrong("its serial number has not 16 bytes"))?;
    let identity = crate::uri::parse(uri_of(&parsed)?, Serial(serial))?;
    let usage = parsed
        .extended_key_usage()
        .ok()
        .flatten()
        .ok_or_else(|| wrong("it does not say what it is for"))?
        .value;
    if usage.any || !usage.client_auth || usage.server_auth != (identity.role == KeyRole::Server) {
        return Err(wrong("what it is for does not go with its role"));
    }
    Ok(identity)
}

/// First and last moment of a certificate's validity: Unix time, seconds.
pub fn validity_of(certificate: &CertificateDer<'_>) -> Result<(i64, i64), KeyError> {
    let validity = parse(certificate)?.validity().clone();
    let unix = |time: OffsetDateTime| time.unix_timestamp();
    Ok((unix(validity.not_before.to_datetime()), unix(validity.not_after.to_datetime())))
}

pub fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, KeyError> {
    match X509Certificate::from_der(certificate) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) => Err(KeyError::Certificate("something follows it".to_owned())),
        Err(error) => Err(KeyError::Certificate(error.to_string())),
    }
}

/// The one alternative name of a certificate.
fn uri_of<'a>(parsed: &'a X509Certificate<'_>) -> Result<&'a str, KeyError> {
    let mut names =
        parsed.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        });
    match (names.next().map(Vec::as_slice), names.next()) {
        (Some([GeneralName::URI(uri)]), None) => Ok(uri),
        _ => Err(KeyError::Certificate("it has not one name, a URI".to_owned())),
    }
}
