//! An identity as the URI in a certificate:
//! `pando://VOLUME-UUID/ROLE/NAME?id=16HEX[&ro][&squash=root:UID:GID|all:UID:GID]`.

use core::fmt::Write;

use pando_types::KeyId;

use crate::identity::error::KeyError;
use crate::identity::holder::{Identity, check_name};
use crate::identity::role::KeyRole;
use crate::identity::serial::Serial;

/// Writes an identity. There is one text for each.
pub fn write(identity: &Identity) -> String {
    let Identity { volume, role, name, key, serial: _, read_only, squash } = identity;
    let mut uri = format!("pando://{}/{role}/{name}?id={:016x}", uuid(volume), key.0);
    if *read_only {
        uri.push_str("&ro");
    }
    if let Some(squash) = squash {
        let _ = write!(uri, "&squash={squash}");
    }
    uri
}

/// Reads an identity. It refuses any text that [`write`] would not write, and so every option that
/// this version does not know.
pub fn parse(uri: &str, serial: Serial) -> Result<Identity, KeyError> {
    let wrong = |what: &str| KeyError::Uri { uri: uri.to_owned(), what: what.to_owned() };
    let rest =
        uri.strip_prefix("pando://").ok_or_else(|| wrong("it does not begin with pando://"))?;
    let (path, query) = rest.split_once('?').ok_or_else(|| wrong("it has no id"))?;
    let mut parts = path.split('/');
    let (Some(volume), Some(role), Some(name), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong("it needs a volume, a role and a name"));
    };
    check_name(name)?;
    let mut identity = Identity {
        volume: volume_of(volume).ok_or_else(|| wrong("its volume is no UUID"))?,
        role: role.parse()?,
        name: name.to_owned(),
        key: KeyId::OWNER,
        serial,
        read_only: false,
        squash: None,
    };
    for option in query.split('&') {
        match option.split_once('=') {
            Some(("id", id)) => {
                let key = u64::from_str_radix(id, 16).map(KeyId);
                identity.key = key.map_err(|_| wrong("its id is no hexadecimal number"))?;
            }
            None if option == "ro" => identity.read_only = true,
            Some(("squash", squash)) => identity.squash = Some(squash.parse()?),
            _ => return Err(wrong(&format!("this version does not know its option `{option}`"))),
        }
    }
    check(&identity)?;
    if write(&identity) == uri { Ok(identity) } else { Err(wrong("its form is not canonical")) }
}

/// Checks what holds of every identity.
pub fn check(identity: &Identity) -> Result<(), KeyError> {
    check_name(&identity.name)?;
    if identity.key == KeyId::OWNER {
        return Err(KeyError::Certificate("its id is 0".to_owned()));
    }
    if identity.role != KeyRole::Client && (identity.read_only || identity.squash.is_some()) {
        return Err(KeyError::OptionsOfRole(identity.role));
    }
    Ok(())
}

/// A volume's id as people see it.
pub fn uuid(id: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*id));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Reads a volume's id. There is one text for each.
pub fn volume_of(text: &str) -> Option<[u8; 16]> {
    let id = u128::from_str_radix(&text.replace('-', ""), 16).ok()?.to_be_bytes();
    (uuid(&id) == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::squash::Squash;

    const SERIAL: Serial = Serial([0x41; 16]);
    const GOOD: &str =
        "pando://00112233-4455-6677-8899-aabbccddeeff/client/ada?id=00000000000000ff";

    fn identities() -> impl Strategy<Value = Identity> {
        let id = || any::<u32>().prop_filter("no id", |id| *id != u32::MAX);
        let squash = (any::<bool>(), id(), id()).prop_map(|(root, uid, gid)| {
            if root { Squash::Root { uid, gid } } else { Squash::All { uid, gid } }
        });
        let role = prop_oneof![Just(KeyRole::Server), Just(KeyRole::Admin), Just(KeyRole::Client)];
        (
            any::<[u8; 16]>(),
            role,
            "[A-Za-z0-9._-]{1,64}",
            1_u64..,
            any::<bool>(),
            proptest::option::of(squash),
        )
            .prop_map(|(volume, role, name, key, read_only, squash)| {
                let is_client = role == KeyRole::Client;
                Identity {
                    volume,
                    role,
                    name,
                    key: KeyId(key),
                    serial: SERIAL,
                    read_only: read_only && is_client,
                    squash: squash.filter(|_| is_client),
                }
            })
    }

    proptest! {
        #[test]
        fn identities_return_as_they_are_written(identity in identities()) {
            prop_assert_eq!(parse(&write(&identity), SERIAL).unwrap(), identity);
        }

        /// With one byte more, less or changed, the text is another identity's or none.
        #[test]
        fn there_is_one_text_for_an_identity(
            identity in identities(), at in any::<prop::sample::Index>(), byte in 0x20_u8..0x7f, how in 0..3,
        ) {
            let text = write(&identity);
            let mut other = text.clone().into_bytes();
            let at = at.index(other.len());
            match how {
                0 => other[at] = byte,
                1 => other.insert(at, byte),
                _ => drop(other.remove(at)),
            }
            let other = String::from_utf8(other).unwrap();
            if other != text && let Ok(parsed) = parse(&other, SERIAL) {
                prop_assert_ne!(parsed, identity);
            }
        }

        #[test]
        fn any_text_is_refused_or_returns(text in "(pando://)?\\PC{0,120}") {
            if let Ok(parsed) = parse(&text, SERIAL) {
                prop_assert_eq!(write(&parsed), text);
            }
        }
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(parse(GOOD, SERIAL).is_ok());
        for option in [
            "&rw",
            "&",
            "&ro&ro",
            "&ro=",
            "&ro=1",
            "&RO",
            "&squash",
            "&squash=",
            "&squash=root",
            "&squash=root:1",
            "&squash=root:1:2:3",
            "&squash=some:1:2",
            "&squash=all:-1:0",
            "&squash=all:4294967295:0",
            "&squash=all:0:4294967296",
            "&squash=all:01:0",
            "&squash=all:+1:0",
            "&squash=all:1:2&ro",
            "&squash=all:1:2&squash=root:1:2",
            "&id=00000000000000ff",
            "&until=5",
            "#ro",
            "%26ro",
            " ",
        ] {
            let uri = format!("{GOOD}{option}");
            assert!(parse(&uri, SERIAL).is_err(), "{uri}");
        }
        for good in ["&ro", "&squash=root:65534:65534", "&ro&squash=all:0:0"] {
            let uri = format!("{GOOD}{good}");
            assert!(parse(&uri, SERIAL).is_ok(), "{uri}");
        }
    }

    #[test]
    fn what_is_not_written_by_this_is_refused() {
        let volume = "00112233-4455-6677-8899-aabbccddeeff";
        let long = "x".repeat(65);
        for uri in [
            String::new(),
            "pando://".to_owned(),
            GOOD.replace("pando", "http"),
            GOOD.replace("pando", "PANDO"),
            GOOD.replace("aabbcc", "AABBCC"),
            GOOD.replace("2233-", "2233"),
            GOOD.replace("ada", ""),
            GOOD.replace("ada", "a/b"),
            GOOD.replace("ada", "a b"),
            GOOD.replace("ada", "a%62"),
            GOOD.replace("ada", "ad\u{e4}"),
            GOOD.replace("ada", &long),
            GOOD.replace("client", "Client"),
            GOOD.replace("client", "root"),
            GOOD.replace("ff", "FF"),
            GOOD.replace("00000000000000ff", "ff"),
            GOOD.replace("00000000000000ff", "0000000000000000"),
            GOOD.replace("00000000000000ff", "+0000000000000ff"),
            format!("pando://user@{volume}/client/ada?id=00000000000000ff"),
            format!("pando://{volume}:1/client/ada?id=00000000000000ff"),
            format!("pando://{volume}/admin/ada?id=00000000000000ff&ro"),
            format!("pando://{volume}/server/ada?id=00000000000000ff&squash=all:1:1"),
        ] {
            assert!(parse(&uri, SERIAL).is_err(), "{uri}");
        }
    }
}
