//! Records without a handshake, for tests and fuzzing.

use std::sync::Arc;

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{ConnectionTrafficSecrets, Error};

use crate::tls::record::{Keychain, Opener, Sealer, Shared};

/// Keys that both sides derive by counting.
struct Counted {
    sealing: u8,
    opening: u8,
}

fn secrets(number: u8) -> ConnectionTrafficSecrets {
    let (key, iv) = (AeadKey::from([number; 32]), Iv::from([number; 12]));
    match number % 2 {
        0 => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
        _ => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
    }
}

impl Keychain for Counted {
    fn next_to_seal(&mut self) -> Result<ConnectionTrafficSecrets, Error> {
        self.sealing += 1;
        Ok(secrets(self.sealing))
    }

    fn next_to_open(&mut self) -> Result<ConnectionTrafficSecrets, Error> {
        self.opening += 1;
        Ok(secrets(self.opening))
    }
}

/// One side of a connection; `sealing` and `opening` are the numbers of its first keys.
pub(super) fn side(sealing: u8, opening: u8) -> (Sealer, Opener) {
    let shared: Arc<Shared> = Shared::new(Counted { sealing, opening });
    let sealer = Sealer::new((0, secrets(sealing)), shared.clone()).unwrap();
    (sealer, Opener::new((0, secrets(opening)), shared).unwrap())
}

/// Both sides of a connection.
pub(super) fn pair() -> [(Sealer, Opener); 2] {
    [side(10, 60), side(60, 10)]
}
