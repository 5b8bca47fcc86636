//! Proof that both sides know one secret, without saying it.
//!
//! Both nonces, the volume and the whole `Hello` go into the proofs, so that none can be used again, or for another
//! role. What follows on the connection is neither encrypted nor authenticated (docs/SEMANTICS.md).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::hello::Hello;

/// Shortest secret, bytes.
pub const SECRET_MIN: usize = 16;

/// A keyed hash.
#[derive(Clone, Copy, Eq, Debug, Serialize, Deserialize)]
pub struct Mac([u8; 32]);

/// In constant time.
impl PartialEq for Mac {
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(other.0)
    }
}

/// A key made of a shared secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// Shows nothing.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The secret is too short to be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a secret of {0} bytes is too short: at least {SECRET_MIN} are needed (`head -c 32 /dev/urandom | base64` makes a good one)"
)]
pub struct TooShort(pub usize);

/// Who proves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Who opened the connection.
    Opener,
    /// Who accepted it.
    Acceptor,
}

impl Secret {
    /// From a file's content; white space around it does not count.
    pub fn new(content: &[u8]) -> Result<Self, TooShort> {
        let trimmed = content.trim_ascii();
        if trimmed.len() < SECRET_MIN {
            return Err(TooShort(trimmed.len()));
        }
        Ok(Self(blake3::derive_key("pando wire 1 shared secret", trimmed)))
    }

    /// One side's proof.
    #[must_use]
    pub fn prove(&self, side: Side, hello: &Hello, volume: &[u8; 16], nonce: &[u8; 32]) -> Mac {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(match side {
            Side::Opener => b"opener..",
            Side::Acceptor => b"acceptor",
        });
        hasher.update(volume).update(nonce);
        hasher.update(&pando_types::codec::encode(crate::VERSION, hello));
        Mac(*hasher.finalize().as_bytes())
    }
}
