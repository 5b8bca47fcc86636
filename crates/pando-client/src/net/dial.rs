//! Connects to one server.

use std::time::Duration;

use pando_net::{Accepts, HandshakeError, Keys, Opened, Serial, Stream, open};
use pando_wire::{Address, Role};
use tokio::time::timeout;

/// If a server has not welcomed the client by then, the next address is tried.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Takes in revoked serials. They come from a server: over TLS it has proved to be one, and a Unix
/// socket belongs to the volume's owner.
pub(super) fn learn(keys: &Keys, revoked: &[[u8; 16]]) {
    keys.learn(revoked.iter().map(|serial| Serial(*serial)));
}

pub(super) async fn dial(
    address: &Address,
    volume: [u8; 16],
    role: Role,
    keys: Option<&Keys>,
) -> Result<Opened, HandshakeError> {
    let attempt = async {
        let stream = Stream::connect(address).await.map_err(HandshakeError::unreached)?;
        let opened = open(stream, volume, role, keys).await?;
        if let Some(keys) = keys {
            learn(keys, &opened.welcome.revoked);
            // During the handshake another server may have told that this one is revoked.
            if let Some(shown) = &opened.shown {
                keys.judge(shown, Accepts::Servers).map_err(HandshakeError::Tls)?;
            }
        }
        Ok(opened)
    };
    let silent = HandshakeError::Silent(CONNECT_WITHIN);
    timeout(CONNECT_WITHIN, attempt).await.unwrap_or(Err(silent))
}
