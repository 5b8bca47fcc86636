//! The list of certificates that a volume's authorities have issued.

use std::path::Path;

use pando_types::KeyId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::files::guard;
use crate::folder::names::ISSUED;
use crate::identity::error::KeyError;
use crate::identity::holder::Identity;
use crate::identity::role::KeyRole;
use crate::identity::serial::Serial;

/// A certificate, as the list `issued` has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    /// What the certificate says.
    pub identity: Identity,
    /// The end of its validity, to the second.
    pub not_after: OffsetDateTime,
    /// The serial number of the authority's own certificate.
    pub authority: Serial,
    /// Addresses of servers that were given along.
    pub addresses: Vec<String>,
}

/// A line of the list, in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    serial: String,
    name: String,
    role: String,
    id: String,
    ro: bool,
    squash: Option<String>,
    not_after: String,
    authority: String,
    addresses: Vec<String>,
}

impl Issued {
    /// The end of its validity, as in RFC 3339.
    #[must_use]
    pub fn until(&self) -> String {
        self.not_after.format(&Rfc3339).unwrap_or_default()
    }

    fn line(&self) -> Line {
        let Identity { role, name, key, serial, read_only, squash, .. } = &self.identity;
        Line {
            serial: serial.to_string(),
            name: name.clone(),
            role: role.to_string(),
            id: format!("{:016x}", key.0),
            ro: *read_only,
            squash: squash.map(|squash| squash.to_string()),
            not_after: self.until(),
            authority: self.authority.to_string(),
            addresses: self.addresses.clone(),
        }
    }

    fn parse(line: &str, volume: [u8; 16]) -> Result<Self, String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let shown = |error: KeyError| error.to_string();
        let identity = Identity {
            volume,
            role: line.role.parse::<KeyRole>().map_err(shown)?,
            name: line.name,
            key: u64::from_str_radix(&line.id, 16).map(KeyId).map_err(|error| error.to_string())?,
            serial: line.serial.parse().map_err(shown)?,
            read_only: line.ro,
            squash: line.squash.map(|squash| squash.parse()).transpose().map_err(shown)?,
        };
        crate::identity::uri::check(&identity).map_err(shown)?;
        let not_after = OffsetDateTime::parse(&line.not_after, &Rfc3339);
        Ok(Self {
            identity,
            not_after: not_after.map_err(|error| error.to_string())?,
            authority: line.authority.parse().map_err(shown)?,
            addresses: line.addresses,
        })
    }
}

/// Reads all issued certificates, in the order of their issue.
pub fn read(keys_dir: &Path, volume: [u8; 16]) -> Result<Vec<Issued>, KeyError> {
    let path = keys_dir.join(ISSUED);
    let text = guard::read_public(&path)?;
    let lines = text.lines().enumerate();
    lines
        .map(|(at, line)| {
            Issued::parse(line, volume).map_err(|what| {
                let what = format!("line {}: {what}", at + 1);
                KeyError::File { path: path.clone(), what }
            })
        })
        .collect()
}

/// Writes the list of all issued certificates.
pub fn write(keys_dir: &Path, issued: &[Issued]) -> Result<(), KeyError> {
    let mut text = String::new();
    for issued in issued {
        let line = serde_json::to_string(&issued.line())
            .map_err(|error| KeyError::Make(error.to_string()))?;
        text.push_str(&line);
        text.push('\n');
    }
    guard::write_for_owner(&keys_dir.join(ISSUED), &text)
}
