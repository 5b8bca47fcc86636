//! What the fuzzer tries, besides the public functions. Each function panics if a promise is
//! broken.

use std::path::Path;

use crate::identity::uri;
use crate::{Bundle, Identity, Serial};

/// Reads the URI of an identity.
pub fn uri(text: &str) {
    if let Ok(identity) = uri::parse(text, Serial([0x41; 16])) {
        assert_eq!(uri::write(&identity), text, "there is one way to write each");
    }
}

/// Checks an identity that came out of a certificate.
pub fn identity(identity: &Identity) {
    let found = uri::parse(&uri::write(identity), identity.serial);
    assert_eq!(found.ok().as_ref(), Some(identity));
}

/// Reads the text of a bundle's file.
pub fn bundle(text: &str) {
    let path = Path::new("fuzzed");
    if let Ok(bundle) = Bundle::parse(path, text) {
        let again = Bundle::parse(path, &bundle.to_pem()).expect("what was written is read");
        assert_eq!(again.identity, bundle.identity);
        assert_eq!(again.addresses, bundle.addresses);
        assert_eq!(again.key, bundle.key);
        let of = |bundle: &Bundle| {
            let certificates = [&bundle.chain[..], &bundle.authorities].concat();
            (bundle.certificate.clone(), certificates)
        };
        assert_eq!(of(&again), of(&bundle));
    }
}
