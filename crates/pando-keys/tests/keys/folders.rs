//! A volume's folder of keys.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use pando_keys::{IfInUse, KeyError, REVOCATIONS_MAX, Serial};

use super::*;

#[test]
fn a_new_folder_is_its_owners_alone_and_has_all_that_servers_need() {
    let (temp, folder) = made();
    assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o7777, 0o700);
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["admin.pem", "ca.crt", "ca.key", "issued", "revoked", "server.pem"]);
    for name in names {
        let mode = fs::metadata(folder.path().join(&name)).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{name:?}");
    }
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    let trust = folder.trust().unwrap();
    let admin = Bundle::read(&folder.own(KeyRole::Admin)).unwrap();
    as_client(&admin, &trust).unwrap();
    as_client(&server_of(&folder), &trust).unwrap();
    as_server(&server_of(&folder), &admin).unwrap();
    assert!(matches!(KeysFolder::create(folder.path(), VOLUME), Err(KeyError::HasKeys(_))));
    assert_eq!(KeysFolder::open(folder.path(), VOLUME).unwrap(), folder);
}

#[test]
fn a_folder_of_no_keys_or_of_another_volume_says_so() {
    let (temp, folder) = made();
    let error = KeysFolder::open(&temp.path().join("other"), VOLUME).unwrap_err();
    assert!(error.to_string().contains("pando auth init"), "{error}");
    let error = KeysFolder::open(folder.path(), [8; 16]).unwrap_err();
    assert!(matches!(error, KeyError::OtherVolume { .. }), "{error}");
    assert!(error.to_string().contains("07070707-0707-0707-0707-070707070707"), "{error}");
}

#[test]
fn what_is_issued_is_remembered_and_its_name_taken() {
    let (_temp, folder) = made();
    let authority = folder.authority(None).unwrap();
    let ada = folder.issue(&authority, &wanted("ada", KeyRole::Client)).unwrap();
    let error = folder.issue(&authority, &wanted("ada", KeyRole::Admin)).unwrap_err();
    assert!(matches!(&error, KeyError::Exists(name) if name == "ada"), "{error}");
    let issued = folder.issued().unwrap();
    let names: Vec<_> = issued.iter().map(|issued| issued.identity.name.as_str()).collect();
    assert_eq!(names, ["server", "admin", "ada"]);
    assert_eq!(issued[2].identity, ada.identity);
    assert_eq!(folder.valid().unwrap(), issued);
}

#[test]
fn what_is_revoked_counts_no_more_and_its_name_is_free_for_another() {
    let (_temp, folder) = made();
    let authority = folder.authority(None).unwrap();
    let first = folder.issue(&authority, &wanted("ada", KeyRole::Client)).unwrap();
    let second = folder.renew(&authority, "ada", 30, vec![]).unwrap();
    assert_eq!(second.identity.key, first.identity.key);
    assert_eq!(second.addresses, first.addresses);
    // Revoked by serial number: one of them.
    let ended = folder.revoke(&first.identity.serial.to_string()).unwrap();
    assert_eq!(ended.len(), 1);
    let revoked = folder.trust().unwrap().revoked;
    assert_eq!(Vec::from_iter(revoked), [first.identity.serial]);
    // Revoked by name: all that are left.
    let third = folder.renew(&authority, "ada", 30, vec![]).unwrap();
    assert_eq!(folder.revoke("ada").unwrap().len(), 2);
    let revoked = folder.trust().unwrap().revoked;
    for bundle in [&first, &second, &third] {
        assert!(revoked.contains(&bundle.identity.serial));
    }
    let revocations = folder.revocations().unwrap();
    assert_eq!(revocations.len(), 3);
    assert!(revocations.iter().all(|revocation| revocation.name == "ada"));
    assert!(matches!(folder.revoke("ada"), Err(KeyError::Unknown(_))));
    assert!(matches!(folder.renew(&authority, "ada", 30, vec![]), Err(KeyError::Unknown(_))));
    let another = folder.issue(&authority, &wanted("ada", KeyRole::Client)).unwrap();
    assert_ne!(another.identity.key, first.identity.key);
}

#[test]
fn no_more_is_revoked_than_all_servers_are_told_of() {
    let (_temp, folder) = made();
    let authority = folder.authority(None).unwrap();
    let ada = folder.issue(&authority, &wanted("ada", KeyRole::Client)).unwrap();
    let line = |number: u128| format!("{number:032x} 2026-01-02T03:04:05Z bob\n");
    let full: String = (1..REVOCATIONS_MAX as u128).map(line).collect();
    let path = file(&folder, "revoked");
    fs::write(&path, full + &line(0)).unwrap();
    let error = folder.revoke("ada").unwrap_err();
    assert!(matches!(error, KeyError::TooManyRevoked(REVOCATIONS_MAX)), "{error}");
    assert!(error.to_string().contains("pando auth rotate"), "{error}");
    assert!(!folder.trust().unwrap().revoked.contains(&ada.identity.serial));
    // An authority can be ended nevertheless.
    folder.rotate(&authority, None).unwrap();
    folder.finish_rotation(IfInUse::End).unwrap();
    assert!(folder.trust().unwrap().revoked.contains(&authority.serial()));
}

#[test]
fn an_expired_key_can_be_renewed() {
    let (_temp, folder) = made();
    let authority = folder.authority(None).unwrap();
    let ada = folder.issue(&authority, &wanted("ada", KeyRole::Client)).unwrap();
    let path = file(&folder, "issued");
    let text = fs::read_to_string(&path).unwrap();
    let ends = folder.issued().unwrap()[2].not_after.year().to_string();
    fs::write(&path, text.replace(&format!("\"not_after\":\"{ends}"), "\"not_after\":\"2001"))
        .unwrap();
    assert!(folder.valid().unwrap().iter().all(|issued| issued.identity.name != "ada"));
    let renewed = folder.renew(&authority, "ada", 30, vec!["h:1".to_owned()]).unwrap();
    assert_eq!(renewed.identity.key, ada.identity.key);
    assert_eq!(renewed.addresses, ["h:1"]);
}

#[test]
fn the_authoritys_key_may_be_elsewhere() {
    let (temp, folder) = made();
    let offline = temp.path().join("offline.key");
    fs::rename(file(&folder, "ca.key"), &offline).unwrap();
    let error = folder.authority(None).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("--ca FILE"), "{error}");
    // Servers do not need it.
    folder.trust().unwrap();
    let authority = folder.authority(Some(&offline)).unwrap();
    let ada = folder.issue(&authority, &wanted("ada", KeyRole::Client)).unwrap();
    as_client(&ada, &folder.trust().unwrap()).unwrap();
    // The key of another authority is refused.
    let (_other_temp, other) = made();
    let error = folder.authority(Some(&file(&other, "ca.key"))).map(|_| ()).unwrap_err();
    assert!(matches!(error, KeyError::OtherAuthority { .. }), "{error}");
    // So is a file without a key.
    let error = folder.authority(Some(&file(&folder, "revoked"))).map(|_| ()).unwrap_err();
    assert!(matches!(error, KeyError::File { .. }), "{error}");
}

#[test]
fn without_its_list_of_what_was_revoked_a_server_trusts_no_key() {
    let (_temp, folder) = made();
    let path = file(&folder, "revoked");
    let serial = Serial::random().unwrap();
    let good = format!("{serial} 2026-01-02T03:04:05Z ada\n");
    fs::write(&path, &good).unwrap();
    assert!(folder.trust().unwrap().revoked.contains(&serial));
    for wrong in [
        "\n".to_owned(),
        format!("{serial}\n"),
        format!("{good}x\n"),
        good.replace("ada", "ada bob"),
        good.replace("2026", "soon"),
        good.replacen('4', "G", 1),
        good[..40].to_owned(),
    ] {
        fs::write(&path, &wrong).unwrap();
        let error = folder.trust().expect_err(&wrong).to_string();
        assert!(error.contains("revoked"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    assert!(folder.trust().is_err());
}

/// While two authorities are valid, each side that knows one of them accepts the others, and is
/// accepted.
#[test]
fn a_rotation_leaves_no_key_outside() {
    let (_temp, folder) = made();
    let authority = folder.authority(None).unwrap();
    let add = |name: &str, role| {
        folder.issue(&folder.authority(None).unwrap(), &wanted(name, role)).unwrap()
    };
    let (ada, host) = (add("ada", KeyRole::Client), add("host2", KeyRole::Server));
    let before = (folder.trust().unwrap(), server_of(&folder));
    assert!(matches!(folder.finish_rotation(IfInUse::End), Err(KeyError::NotRotating)));
    folder.rotate(&authority, None).unwrap();
    assert!(matches!(folder.rotate(&authority, None), Err(KeyError::Rotating)));
    let trust = folder.trust().unwrap();
    assert_eq!(trust.authorities.len(), 2);
    let (server, bob) = (server_of(&folder), add("bob", KeyRole::Client));
    assert_ne!(server.identity.serial, before.1.identity.serial);
    assert_eq!(server.identity.key, before.1.identity.key);
    for client in [&ada, &bob, &server] {
        // Servers here, and servers elsewhere that have not heard of the rotation.
        as_client(client, &trust).unwrap();
        as_client(client, &before.0).unwrap();
        as_server(&server, client).unwrap();
        as_server(&host, client).unwrap();
    }
    // Not before all names have certificates of the new authority.
    let error = folder.finish_rotation(IfInUse::Refuse).unwrap_err();
    assert!(matches!(&error, KeyError::InUse(names) if names == &["ada", "host2"]), "{error}");
    let next = folder.authority(None).unwrap();
    let new_ada = folder.renew(&next, "ada", 30, vec![]).unwrap();
    folder.revoke("host2").unwrap();
    let ended = folder.finish_rotation(IfInUse::Refuse).unwrap();
    assert!(ended.iter().any(|issued| issued.identity.serial == ada.identity.serial));
    let (trust, server) = (folder.trust().unwrap(), server_of(&folder));
    assert_eq!(trust.authorities, [next.certificate().clone()]);
    assert_eq!((server.authorities.len(), server.chain.len()), (1, 0));
    for client in [&new_ada, &bob, &server] {
        as_client(client, &trust).unwrap();
        as_server(&server, client).unwrap();
    }
    assert!(as_client(&ada, &trust).is_err());
    assert!(as_server(&server, &ada).is_err());
    assert!(
        folder.valid().unwrap().iter().all(|issued| issued.identity.serial != ada.identity.serial)
    );
    // A second rotation.
    folder.rotate(&folder.authority(None).unwrap(), None).unwrap();
    assert!(folder.finish_rotation(IfInUse::End).unwrap().len() >= 2);
    assert!(as_client(&bob, &folder.trust().unwrap()).is_err());
}

/// A key that was issued during a rotation names both authorities for ever.
#[test]
fn an_ended_authority_is_among_what_is_revoked_and_ends_where_files_go_on_to_name_it() {
    let (_temp, folder) = made();
    let old = folder.authority(None).unwrap();
    folder.rotate(&old, None).unwrap();
    let next = folder.authority(None).unwrap();
    let ada = folder.issue(&next, &wanted("ada", KeyRole::Client)).unwrap();
    assert_eq!(ada.authorities.len(), 2);
    let server_of_old = old.issue(&wanted("s", KeyRole::Server)).unwrap();
    as_server(&server_of_old, &ada).unwrap();
    folder.finish_rotation(IfInUse::End).unwrap();
    let told = folder.trust().unwrap().revoked;
    assert!(told.contains(&old.serial()) && !told.contains(&next.serial()));
    let mut trust = Trust { authorities: ada.authorities.clone(), revoked: BTreeSet::new() };
    trust.revoke(told);
    assert_eq!(trust.authorities, [next.certificate().clone()]);
    // No message can end the newest authority.
    trust.revoke([next.serial()]);
    assert_eq!(trust.authorities, [next.certificate().clone()]);
    assert_eq!(folder.revocations().unwrap().len(), 1);
}

#[test]
fn a_finish_that_was_stopped_is_gone_on_with() {
    let (_temp, folder) = made();
    let old = folder.authority(None).unwrap();
    folder.rotate(&old, None).unwrap();
    let before = fs::read(file(&folder, "ca.crt")).unwrap();
    folder.finish_rotation(IfInUse::End).unwrap();
    // As if all but the last step had been done.
    fs::write(file(&folder, "ca.crt"), &before).unwrap();
    assert_eq!(folder.trust().unwrap().authorities.len(), 1);
    folder.finish_rotation(IfInUse::Refuse).unwrap();
    assert_ne!(fs::read(file(&folder, "ca.crt")).unwrap(), before);
    assert_eq!(folder.revocations().unwrap().len(), 1);
    assert!(matches!(folder.finish_rotation(IfInUse::End), Err(KeyError::NotRotating)));
}

#[test]
fn the_newest_authority_comes_first_whichever_signs() {
    let (temp, folder) = made();
    let old = folder.authority(None).unwrap();
    let old_key = temp.path().join("old.key");
    fs::copy(file(&folder, "ca.key"), &old_key).unwrap();
    let next = folder.rotate(&old, None).unwrap();
    let both = [next.certificate().clone(), old.certificate().clone()];
    let by_old = folder.authority(Some(&old_key)).unwrap();
    assert_eq!(by_old.serial(), old.serial());
    let ada = folder.issue(&by_old, &wanted("ada", KeyRole::Client)).unwrap();
    assert_eq!(ada.authorities, both);
    as_client(&ada, &folder.trust().unwrap()).unwrap();
    // Nor does the order in a file decide.
    let mut bundle = ada;
    bundle.authorities.reverse();
    let path = temp.path().join("ada.pem");
    bundle.write(&path).unwrap();
    assert_eq!(Bundle::read(&path).unwrap().authorities, both);
}

#[test]
fn a_rotation_whose_key_cannot_be_written_changes_nothing() {
    let (temp, folder) = made();
    let before = fs::read(file(&folder, "ca.crt")).unwrap();
    let old = folder.authority(None).unwrap();
    let error = folder.rotate(&old, Some(&temp.path().join("missing/ca.key"))).err().unwrap();
    assert!(matches!(error, KeyError::Io { .. }), "{error}");
    assert_eq!(fs::read(file(&folder, "ca.crt")).unwrap(), before);
    folder.rotate(&folder.authority(None).unwrap(), None).unwrap();
}

#[test]
fn a_rotation_that_was_stopped_is_gone_on_with() {
    for finishes in [false, true] {
        let (_temp, folder) = made();
        let (key, draft) = (file(&folder, "ca.key"), file(&folder, "ca.key.new"));
        let old = folder.authority(None).unwrap();
        // A key without a certificate belongs to no rotation.
        fs::copy(&key, &draft).unwrap();
        let old_key = fs::read(&key).unwrap();
        let next = folder.rotate(&old, None).unwrap();
        assert!(!draft.exists());
        // As if the new key had not taken its place.
        fs::rename(&key, &draft).unwrap();
        fs::write(&key, &old_key).unwrap();
        fs::set_permissions(&key, fs::metadata(&draft).unwrap().permissions()).unwrap();
        let old = folder.authority(None).unwrap();
        folder.issue(&old, &wanted("ada", KeyRole::Client)).unwrap();
        if finishes {
            folder.finish_rotation(IfInUse::End).unwrap();
        } else {
            assert_eq!(folder.rotate(&old, None).unwrap().serial(), next.serial());
            assert!(matches!(folder.rotate(&old, None), Err(KeyError::Rotating)));
        }
        assert!(!draft.exists());
        let now = folder.authority(None).unwrap();
        assert_eq!(now.serial(), next.serial());
        let bob = folder.issue(&now, &wanted("bob", KeyRole::Client)).unwrap();
        as_client(&bob, &folder.trust().unwrap()).unwrap();
    }
}

#[test]
fn an_authority_that_servers_take_for_revoked_is_not_made_an_older_one() {
    let (temp, folder) = made();
    let old = folder.authority(None).unwrap();
    let run = temp.path().join("run");
    fs::create_dir(&run).unwrap();
    let other = Serial([3; 16]);
    fs::write(run.join("revoked"), format!("{other}\n{}\n", old.serial())).unwrap();
    let error = folder.rotate(&old, None).err().unwrap();
    assert!(matches!(error, KeyError::AuthorityHeard { .. }), "{error}");
    assert_eq!(folder.trust().unwrap().authorities.len(), 1);
    fs::write(run.join("revoked"), format!("{other}\n")).unwrap();
    folder.rotate(&old, None).unwrap();
}

#[test]
fn a_rotation_with_the_key_elsewhere_puts_the_new_one_there() {
    let (temp, folder) = made();
    let offline = temp.path().join("offline.key");
    fs::rename(file(&folder, "ca.key"), &offline).unwrap();
    let old = folder.authority(Some(&offline)).unwrap();
    folder.rotate(&old, Some(&offline)).unwrap();
    assert!(!file(&folder, "ca.key").exists());
    let new = folder.authority(Some(&offline)).unwrap();
    assert_ne!(new.serial(), old.serial());
}

#[test]
fn a_server_elsewhere_has_its_folder_from_its_key() {
    let (temp, folder) = made();
    let authority = folder.authority(None).unwrap();
    let host = folder.issue(&authority, &wanted("host2", KeyRole::Server)).unwrap();
    let ada = folder.issue(&authority, &wanted("ada", KeyRole::Client)).unwrap();
    let there = temp.path().join("there");
    let error = KeysFolder::adopt(&there, &ada).unwrap_err();
    assert!(error.to_string().contains("--role server"), "{error}");
    let adopted = KeysFolder::adopt(&there, &host).unwrap();
    as_client(&ada, &adopted.trust().unwrap()).unwrap();
    assert_eq!(server_of(&adopted).identity, host.identity);
    assert!(adopted.authority(None).is_err());
    // Adopted once more, with a renewed key: the list of what is revoked stays.
    let revoked = fs::read(file(&folder, "revoked")).unwrap();
    fs::write(file(&adopted, "revoked"), revoked).unwrap();
    let renewed = folder.renew(&authority, "host2", 30, vec![]).unwrap();
    let adopted = KeysFolder::adopt(&there, &renewed).unwrap();
    assert_eq!(server_of(&adopted).identity, renewed.identity);
    // Refused over the folder of the volume's owner, and over another volume's folder.
    assert!(matches!(KeysFolder::adopt(folder.path(), &host), Err(KeyError::HasKeys(_))));
    let other = KeysFolder::create(&temp.path().join("other"), [8; 16]).unwrap();
    let error = KeysFolder::adopt(&there, &server_of(&other)).unwrap_err();
    assert!(matches!(error, KeyError::OtherVolume { .. }), "{error}");
}
