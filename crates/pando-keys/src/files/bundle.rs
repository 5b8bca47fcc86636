//! The one file that the holder of a key needs.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::files::{guard, pem};
use crate::identity::certificate::identity_of;
use crate::identity::error::KeyError;
use crate::identity::holder::Identity;

/// The beginning of a line with an address.
const ADDRESS: &str = "# address: ";

/// A key, its certificate, and the authorities that its holder trusts.
#[derive(Debug)]
pub struct Bundle {
    /// What the certificate says.
    pub identity: Identity,
    /// Addresses of the volume's servers, as `pando_wire::Address` prints them. Servers may move:
    /// these are where to begin.
    pub addresses: Vec<String>,
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Certificates to send after the own one. By these an older authority vouches for the issuer,
    /// so that a side that knows only the older one accepts it. Empty outside of rotations.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key, PKCS#8.
    pub key: PrivateKeyDer<'static>,
    /// The volume's authorities, which its holder trusts.
    pub authorities: Vec<CertificateDer<'static>>,
}

impl Bundle {
    /// Reads a file. Refuses one that other users may read or write, or that another user put
    /// there. Also one in a folder where others may write, unless that is sticky, as `/tmp` is. It
    /// does not check the certificate's signature and times.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::parse(path, &guard::read_secret(path)?)
    }

    /// Reads a file that the user has not named. Refuses one that belongs neither to root nor to
    /// this user, and one that any other user may read.
    pub fn read_found(path: &Path) -> Result<Self, KeyError> {
        Self::parse(path, &guard::read_found(path)?)
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, KeyError> {
        let wrong = |what: &str| KeyError::File { path: path.to_owned(), what: what.to_owned() };
        let mut blocks = pem::read(path, text)?;
        let key = match (blocks.keys.pop(), blocks.keys.is_empty()) {
            (Some(key), true) => key,
            (None, _) => return Err(wrong("it has no private key")),
            _ => return Err(wrong("it has more than one private key")),
        };
        let mut certificates = blocks.certificates.into_iter();
        let certificate = certificates.next().ok_or_else(|| wrong("it has no certificate"))?;
        let identity = identity_of(&certificate).map_err(|error| wrong(&error.to_string()))?;
        let (authorities, chain) = pem::part(path, certificates)?;
        let addresses = text.lines().filter_map(|line| line.strip_prefix(ADDRESS));
        let addresses = addresses.map(|address| address.trim_end().to_owned()).collect();
        Ok(Self { identity, addresses, certificate, chain, key, authorities })
    }

    /// The file's text. It has the private key.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let mut text = format!("# pando: {}\n", crate::identity::uri::write(&self.identity));
        for address in &self.addresses {
            text.push_str(&format!("{ADDRESS}{address}\n"));
        }
        text.push_str(&pem::key(&self.key));
        for certificate in
            std::iter::once(&self.certificate).chain(&self.chain).chain(&self.authorities)
        {
            text.push_str(&pem::certificate(certificate));
        }
        text
    }

    /// Writes a file that no other user can read at any time. It replaces one that is there.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        guard::write(path, &self.to_pem())
    }

    /// Writes a file for the user `owner`, which takes root, into a folder that is open: no path is
    /// looked up. `check` is called right before the file takes its name.
    pub fn write_in(
        &self,
        folder: &File,
        name: &OsStr,
        owner: (u32, u32),
        check: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let give = |file: &File| {
            let is = file.metadata()?;
            let (uid, gid) = owner;
            if (is.uid(), is.gid()) == owner { Ok(()) } else { fchown(file, Some(uid), Some(gid)) }
        };
        guard::write_in(folder, name, &self.to_pem(), give, check)
    }
}
