//! The volume's format-time secrets. Whoever lacks them cannot aim names or directories at one
//! shard (DESIGN §3).

use core::fmt;
use serde::{Deserialize, Serialize};

/// Keys of the two hashes. Drawn once when a volume is formatted; never changed, for all placement
/// hangs on them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Key of directory ids ([`Secrets::dir_id`]).
    pub dir: [u8; 32],
    /// Key of name hashes ([`Secrets::order`]).
    pub name: [u8; 16],
}

/// Shows nothing: a log is no place for keys.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let secrets = Secrets { dir: [0xAB; 32], name: [0xCD; 16] };
        assert_eq!(alloc::format!("{secrets:?}"), "Secrets(..)");
    }
}
