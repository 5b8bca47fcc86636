//! Keys as their users have them. Certificates are judged by the code that TLS judges them by.

mod authorities;
mod bundles;
mod folders;

use std::path::PathBuf;
use std::time::Duration;

use pando_keys::{Bundle, CertificateDer, KeyRole, KeysFolder, Trust, Wanted};
use rustls_pki_types::UnixTime;
use webpki::{EndEntityCert, Error, KeyUsage, anchor_from_trusted_cert};

const VOLUME: [u8; 16] = [7; 16];
const DAY: u64 = 86_400;

fn wanted(name: &str, role: KeyRole) -> Wanted {
    let (read_only, squash, addresses) = (false, None, vec!["10.0.0.1:7400".to_owned()]);
    Wanted { role, name: name.to_owned(), read_only, squash, days: 30, addresses }
}

/// A folder of keys that is removed in the end.
fn made() -> (tempfile::TempDir, KeysFolder) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("keys");
    (temp, KeysFolder::create(&path, VOLUME).unwrap())
}

/// Whether TLS would accept a certificate, so many days from now.
fn verified(
    bundle: &Bundle,
    authorities: &[CertificateDer<'static>],
    usage: KeyUsage,
    days: i64,
) -> Result<(), Error> {
    let anchors: Vec<_> =
        authorities.iter().map(|der| anchor_from_trusted_cert(der).unwrap()).collect();
    let now = UnixTime::now().as_secs().saturating_add_signed(days * DAY as i64);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    EndEntityCert::try_from(&bundle.certificate)?
        .verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            &bundle.chain,
            now,
            usage,
            None,
            None,
        )
        .map(|_| ())
}

fn as_client(bundle: &Bundle, trust: &Trust) -> Result<(), Error> {
    verified(bundle, &trust.authorities, KeyUsage::client_auth(), 0)
}

fn as_server(bundle: &Bundle, seen_by: &Bundle) -> Result<(), Error> {
    verified(bundle, &seen_by.authorities, KeyUsage::server_auth(), 0)
}

fn server_of(folder: &KeysFolder) -> Bundle {
    Bundle::read(&folder.own(KeyRole::Server)).unwrap()
}

fn file(folder: &KeysFolder, name: &str) -> PathBuf {
    folder.path().join(name)
}
