//! The one file that its holder needs.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::KeyError;
use crate::identity::{Identity, identity_of};
use crate::{guard, pem};

/// Begins a line with an address.
const ADDRESS: &str = "# address: ";

/// A key, what certifies it, and whom its holder believes.
#[derive(Debug)]
pub struct Bundle {
    /// What the certificate says.
    pub identity: Identity,
    /// Where the volume's servers are, as `pando_wire::Address` prints it. They may move: these are
    /// where to begin.
    pub addresses: Vec<String>,
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// To be shown after the certificate: by these an older authority vouches for the one that
    /// issued it, so that who knows only the older one accepts it. Empty but for times of rotation.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key, PKCS#8.
    pub key: PrivateKeyDer<'static>,
    /// Whom its holder believes: the volume's authorities.
    pub authorities: Vec<CertificateDer<'static>>,
}

impl Bundle {
    /// Reads a file. Refuses one that others may read or write or that somebody else put there, and
    /// one that is in a folder where others may write (but for sticky ones, as `/tmp`). The
    /// certificate's signature and times are not looked at.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::parse(path, &guard::read_secret(path)?)
    }

    /// Reads a file that nobody has named. Refuses one that is neither root's nor this user's, and
    /// one that anybody else may read.
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
        let mut text = format!("# pando: {}\n", crate::uri::write(&self.identity));
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

    /// Writes a file that nobody else can read, from its birth on; it takes the place of one that
    /// is there.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        guard::write(path, &self.to_pem())
    }

    /// The same for another user, which takes root, in a folder that was opened: no path is looked
    /// up. `check` is asked right before the file takes its name.
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
