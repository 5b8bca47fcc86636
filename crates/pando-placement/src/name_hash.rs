//! Order of a name: SipHash-1-3 under the volume's secret, so that clients cannot aim names at one
//! shard.

use pando_types::Order;
use siphasher::sip::SipHasher13;

use crate::{Secrets, order_of_hash};

impl Secrets {
    /// The order where the search for `name` begins: the low 58 bits of its hash, reversed, with
    /// ordinal 0. It does not depend on the directory.
    #[must_use]
    pub fn order(&self, name: &[u8]) -> Order {
        order_of_hash(SipHasher13::new_with_key(&self.name).hash(name))
    }
}
