//! Keys and certificates of a volume.
//!
//! Each volume has an authority of its own ([`Authority`]). It issues one file to each holder that
//! may connect over TCP ([`Bundle`]). The certificate in the file says what that allows
//! ([`Identity`]). Servers check certificates against the volume's folder `keys/` ([`Trust`]). This
//! crate opens no socket.

mod authority;
mod bundle;
mod error;
mod folder;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guard;
mod identity;
mod issued;
mod pem;
mod rotation;
mod serial;
mod trust;
mod uri;

pub use authority::{Authority, Wanted};
pub use bundle::Bundle;
pub use error::KeyError;
pub use folder::{DAYS, KeysFolder, REVOCATIONS_MAX};
pub use guard::{Lock, lock, write_for_owner};
pub use identity::{Identity, KeyRole, NAME_MAX, Squash, check_name, identity_of, validity_of};
pub use issued::Issued;
pub use rustls_pki_types::{CertificateDer, PrivateKeyDer};
pub use serial::Serial;
pub use trust::{Revocation, Trust, revoked};
