//! From a name to its order: SipHash-1-3 under the volume's secret (DESIGN §3).

use pando_types::Order;
use siphasher::sip::SipHasher13;

use crate::{Secrets, order_of_hash};

impl Secrets {
    /// Where the search for `name` begins: its hash's low 58 bits, reversed, with ordinal 0. The
    /// order does not depend on the directory.
    #[must_use]
    pub fn order(&self, name: &[u8]) -> Order {
        order_of_hash(SipHasher13::new_with_key(&self.name).hash(name))
    }
}
