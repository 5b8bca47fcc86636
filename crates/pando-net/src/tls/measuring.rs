//! Measures sealing alone, for `benches/seal.rs`.

use crate::tls::pair::side;
use crate::tls::record::{Fed, HEAD, Opener, Sealer};

/// One direction of a connection, with both ends in one place.
#[derive(Debug)]
pub struct Direction {
    sealer: Sealer,
    opener: Opener,
    buffer: Vec<u8>,
}

impl Direction {
    /// A direction with AES-256-GCM, as connections have.
    #[must_use]
    pub fn new() -> Self {
        let (sealer, _) = side(10, 60);
        let (_, opener) = side(60, 10);
        Self { sealer, opener, buffer: Vec::new() }
    }

    /// Seals a batch of messages and opens it again. Returns how many bytes came out.
    ///
    /// # Panics
    ///
    /// If the bytes come out changed, which only a wrong cipher can cause.
    pub fn carry(&mut self, batch: &[u8]) -> usize {
        self.buffer.clear();
        self.buffer.resize(HEAD, 0);
        self.buffer.extend_from_slice(batch);
        self.sealer.seal(&mut self.buffer, 0).expect("there is a key");
        let mut came = 0;
        let fed = self.opener.feed(&mut self.buffer, |content| came += content.len());
        assert_eq!((fed, came), (Ok(Fed::More), batch.len()));
        came
    }
}

impl Default for Direction {
    fn default() -> Self {
        Self::new()
    }
}
