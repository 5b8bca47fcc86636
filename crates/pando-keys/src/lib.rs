//! Keys and certificates of a volume.
//!
//! Each volume has an authority of its own ([`Authority`]). It issues one file to each holder that
//! may connect over TCP ([`Bundle`]). The certificate in the file says what that allows
//! ([`Identity`]). Servers check certificates against the volume's folder `keys/` ([`Trust`]). This
//! crate opens no socket.
//!
//! # Rooms
//!
//! Each folder imports only what stands above it here:
//!
//! | folder | holds |
//! |---|---|
//! | `identity` | what a certificate says, and what can be wrong with it |
//! | `files` | files of keys: who may read and write them, and how they are written |
//! | `folder` | a volume's folder of keys, its authority, and what that has issued |

mod files;
mod folder;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod identity;

pub use files::bundle::Bundle;
pub use files::guard::{Lock, lock, write_for_owner};
pub use folder::authority::{Authority, Wanted};
pub use folder::issued::Issued;
pub use folder::keys::{DAYS, KeysFolder, REVOCATIONS_MAX};
pub use folder::rotation::IfInUse;
pub use folder::trust::{Revocation, Trust, revoked};
pub use identity::certificate::{identity_of, validity_of};
pub use identity::error::KeyError;
pub use identity::holder::{Identity, check_name};
pub use identity::role::{KeyRole, NAME_MAX};
pub use identity::serial::Serial;
pub use identity::squash::Squash;
pub use rustls_pki_types::{CertificateDer, PrivateKeyDer};
