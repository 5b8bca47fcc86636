//! Secret hash keys of a volume, drawn when it is formatted. A client without them cannot aim names
//! or directories at one shard.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Keys of the two hashes. They are drawn once when a volume is formatted, and never change: all
/// placement depends on them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Key of directory ids ([`Secrets::dir_id`]).
    pub dir: [u8; 32],
    /// Key of name hashes ([`Secrets::order`]).
    pub name: [u8; 16],
}

/// Shows nothing, so that keys do not get into logs.
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
