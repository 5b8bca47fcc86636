//! Names of the files in a volume's folder of keys.

/// Certificates of authorities.
pub const AUTHORITIES: &str = "ca.crt";
/// The newest authority's key.
pub const AUTHORITY_KEY: &str = "ca.key";
/// The list of issued certificates.
pub const ISSUED: &str = "issued";
/// The list of revoked certificates.
pub const REVOKED: &str = "revoked";
