//! The file that a key's holder has.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use pando_keys::{Authority, KeyError, identity_of};

use super::*;

#[test]
fn a_bundle_returns_as_it_was_written() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("ada.pem");
    let authority = Authority::create(VOLUME).unwrap();
    let next = authority.succeed().unwrap();
    for authority in [authority, next] {
        let addresses = vec!["10.0.0.1:7400".to_owned(), "[::1]:7".to_owned()];
        let wanted = Wanted { addresses, ..wanted("ada", KeyRole::Client) };
        let bundle = authority.issue(&wanted).unwrap();
        bundle.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let read = Bundle::read(&path).unwrap();
        assert_eq!(read.identity, bundle.identity);
        assert_eq!(read.addresses, wanted.addresses);
        assert_eq!(read.certificate, bundle.certificate);
        assert_eq!(read.key, bundle.key);
        assert_eq!(read.authorities, bundle.authorities);
        assert_eq!(read.chain, bundle.chain);
    }
}

#[test]
fn a_bundle_that_others_can_read_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("ada.pem");
    let authority = Authority::create(VOLUME).unwrap();
    authority.issue(&wanted("ada", KeyRole::Client)).unwrap().write(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let error = Bundle::read(&path).unwrap_err();
    assert!(matches!(error, KeyError::Open { mode: 0o644, .. }), "{error}");
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

/// A file that is cut, doubled, mixed up or of another kind is refused, by its name.
#[test]
fn a_file_that_is_no_bundle_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("ada.pem");
    let authority = Authority::create(VOLUME).unwrap();
    let bundle = authority.issue(&wanted("ada", KeyRole::Client)).unwrap();
    let text = bundle.to_pem();
    let begins: Vec<_> = text.match_indices("-----BEGIN").map(|(at, _)| at).collect();
    let [key, certificate, ca] = begins.as_slice() else { panic!("{text}") };
    let (head, key) = (&text[..*key], &text[*key..*certificate]);
    let (certificate, ca) = (&text[*certificate..*ca], &text[*ca..]);
    let other = authority.issue(&wanted("bob", KeyRole::Client)).unwrap().to_pem();
    let request = ca.replace("CERTIFICATE", "CERTIFICATE REQUEST");
    for wrong in [
        String::new(),
        head.to_owned(),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
        [head, key].concat(),
        [head, key, certificate].concat(),
        [head, certificate, ca].concat(),
        [head, key, ca].concat(),
        [head, key, ca, certificate].concat(),
        [head, key, key, certificate, ca].concat(),
        [head, key, certificate, certificate, ca].concat(),
        [head, key, certificate, ca, &request].concat(),
        [&text, other.as_str()].concat(),
        text[..text.len() - 40].to_owned(),
        text.replace("-----BEGIN CERT", "-----BEGIN PERT"),
    ] {
        fs::write(&path, &wrong).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let error = Bundle::read(&path).expect_err(&wrong).to_string();
        assert!(error.contains("ada.pem"), "{error}");
    }
}

/// Each byte of a certificate changed, and each beginning of one: the result is an error, or what
/// it said before, but no panic.
#[test]
fn certificates_that_were_changed_say_nothing_new_but_what_their_bytes_say() {
    let authority = Authority::create(VOLUME).unwrap();
    let bundle = authority.issue(&wanted("ada", KeyRole::Client)).unwrap();
    let der = bundle.certificate.as_ref();
    for at in 0..der.len() {
        assert!(identity_of(&CertificateDer::from(&der[..at])).is_err(), "{at}");
        for flip in [1, 0x20, 0x80, 0xff] {
            let mut other = der.to_vec();
            other[at] ^= flip;
            let other = Bundle { certificate: other.into(), ..copy(&bundle) };
            // Whatever it says, no authority vouches for it.
            let _ = identity_of(&other.certificate);
            assert!(verified(&other, &bundle.authorities, KeyUsage::client_auth(), 0).is_err());
        }
    }
    let more = [der, &[0]].concat();
    assert!(identity_of(&more.into()).is_err());
    assert!(identity_of(authority.certificate()).is_err());
}

fn copy(bundle: &Bundle) -> Bundle {
    Bundle {
        identity: bundle.identity.clone(),
        addresses: bundle.addresses.clone(),
        certificate: bundle.certificate.clone(),
        chain: bundle.chain.clone(),
        key: bundle.key.clone_key(),
        authorities: bundle.authorities.clone(),
    }
}
