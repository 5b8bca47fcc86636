//! What names a key's holder: the URI in a certificate, the certificate, and the holder's key file.
//! The first byte says which of these the input is.

use pando_keys::{CertificateDer, fuzzing, identity_of, validity_of};

pub fn run(input: &[u8]) {
    let Some((&what, bytes)) = input.split_first() else { return };
    match (what % 3, std::str::from_utf8(bytes)) {
        (0, Ok(uri)) => fuzzing::uri(uri),
        (1, Ok(text)) => fuzzing::bundle(text),
        (2, _) => {
            let certificate = CertificateDer::from(bytes);
            let _ = validity_of(&certificate);
            if let Ok(identity) = identity_of(&certificate) {
                fuzzing::identity(&identity);
            }
        }
        _ => {}
    }
}
