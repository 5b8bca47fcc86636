//! Certificates that an authority issues.

use pando_keys::{Authority, KeyError, KeyRole, Squash, identity_of, validity_of};
use pando_types::KeyId;
use webpki::{Error, KeyUsage};

use super::*;

#[test]
fn a_certificate_says_what_was_wanted() {
    let authority = Authority::create(VOLUME).unwrap();
    for (role, read_only, squash) in [
        (KeyRole::Server, false, None),
        (KeyRole::Admin, false, None),
        (KeyRole::Client, false, None),
        (KeyRole::Client, true, Some(Squash::Root { uid: 65_534, gid: 0 })),
        (KeyRole::Client, false, Some(Squash::All { uid: 1_000, gid: u32::MAX - 1 })),
    ] {
        let wanted = Wanted { read_only, squash, ..wanted("ada.lovelace_1-x", role) };
        let bundle = authority.issue(&wanted).unwrap();
        let identity = identity_of(&bundle.certificate).unwrap();
        assert_eq!(identity, bundle.identity);
        assert_eq!((identity.volume, identity.role), (VOLUME, role));
        assert_eq!(identity.name, "ada.lovelace_1-x");
        assert_eq!((identity.read_only, identity.squash), (read_only, squash));
        assert_ne!(identity.key, KeyId::OWNER);
        assert_eq!(bundle.addresses, wanted.addresses);
    }
}

#[test]
fn only_servers_keys_pass_for_servers() {
    let authority = Authority::create(VOLUME).unwrap();
    let authorities = [authority.certificate().clone()];
    for role in [KeyRole::Server, KeyRole::Admin, KeyRole::Client] {
        let bundle = authority.issue(&wanted("x", role)).unwrap();
        assert_eq!(bundle.authorities, authorities);
        verified(&bundle, &authorities, KeyUsage::client_auth(), 0).unwrap();
        let passes = verified(&bundle, &authorities, KeyUsage::server_auth(), 0).is_ok();
        assert_eq!(passes, role == KeyRole::Server, "{role}");
    }
}

#[test]
fn a_certificate_counts_from_an_hour_ago_to_its_end() {
    let authority = Authority::create(VOLUME).unwrap();
    let authorities = [authority.certificate().clone()];
    let bundle = authority.issue(&wanted("x", KeyRole::Client)).unwrap();
    let (from, to) = validity_of(&bundle.certificate).unwrap();
    assert_eq!(to - from, 30 * DAY as i64 + 3_600);
    let at = |days| verified(&bundle, &authorities, KeyUsage::client_auth(), days);
    at(29).unwrap();
    assert!(matches!(at(31), Err(Error::CertExpired { .. })));
    assert!(matches!(at(-1), Err(Error::CertNotValidYet { .. })));
    // Not valid for longer than the authority.
    let long = Wanted { days: u16::MAX, ..wanted("y", KeyRole::Client) };
    let long = authority.issue(&long).unwrap();
    let ends = validity_of(authority.certificate()).unwrap().1;
    assert_eq!(validity_of(&long.certificate).unwrap().1, ends);
}

#[test]
fn another_volumes_authority_vouches_for_no_key_here() {
    let (ours, theirs) = ([7; 16], [8; 16]);
    let authority = Authority::create(ours).unwrap();
    let bundle = Authority::create(theirs).unwrap().issue(&wanted("x", KeyRole::Admin)).unwrap();
    let authorities = [authority.certificate().clone()];
    assert!(verified(&bundle, &authorities, KeyUsage::client_auth(), 0).is_err());
    assert_eq!(identity_of(&bundle.certificate).unwrap().volume, theirs);
}

#[test]
fn no_authority_issues_with_a_key_that_was_issued() {
    let authority = Authority::create(VOLUME).unwrap();
    let admin = authority.issue(&wanted("x", KeyRole::Server)).unwrap();
    let mut forged =
        Authority::create(VOLUME).unwrap().issue(&wanted("y", KeyRole::Admin)).unwrap();
    forged.chain = vec![admin.certificate];
    let authorities = [authority.certificate().clone()];
    assert!(verified(&forged, &authorities, KeyUsage::client_auth(), 0).is_err());
}

#[test]
fn a_renewed_key_is_the_same_ones() {
    let authority = Authority::create(VOLUME).unwrap();
    let options = Wanted {
        read_only: true,
        squash: Some(Squash::All { uid: 5, gid: 6 }),
        ..wanted("ada", KeyRole::Client)
    };
    let old = authority.issue(&options).unwrap();
    let new = authority.renew(&old.identity, 60, vec![]).unwrap();
    assert_ne!(new.identity.serial, old.identity.serial);
    assert_ne!(new.key.secret_der(), old.key.secret_der());
    let serial = old.identity.serial;
    assert_eq!(pando_keys::Identity { serial, ..new.identity.clone() }, old.identity);
    assert_eq!(identity_of(&new.certificate).unwrap(), new.identity);
}

#[test]
fn what_a_key_cannot_be_is_refused() {
    let authority = Authority::create(VOLUME).unwrap();
    let issue = |wanted| authority.issue(&wanted).unwrap_err();
    for name in ["", "a/b", "a b", "a?ro", "ä", "a\n", &"x".repeat(65)] {
        let error = issue(wanted(name, KeyRole::Client));
        assert!(matches!(error, KeyError::NoName(_)), "{name}: {error}");
    }
    for role in [KeyRole::Server, KeyRole::Admin] {
        let read_only = Wanted { read_only: true, ..wanted("x", role) };
        let squash = Some(Squash::Root { uid: 1, gid: 1 });
        for wanted in [read_only, Wanted { squash, ..wanted("x", role) }] {
            assert!(matches!(issue(wanted), KeyError::OptionsOfRole(_)));
        }
    }
}
