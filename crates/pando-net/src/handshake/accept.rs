//! Accepts connections.

use pando_wire::{Hello, Message, Refused, Role, Welcome};
use tokio::time::timeout;

use crate::handshake::error::{
    GREETING_WITHIN, HandshakeError, OWN_VERSIONS, denied, is_of_version,
};
use crate::handshake::proof::{Proof, Reception};
use crate::handshake::talk::Talk;
use crate::inbound::{Closed, Inbound};
use crate::listener::Accepted;

/// Accepts a connection. `admit` decides by the greeting and by its sender; its answer is sent in
/// any case. Greetings of servers, and the welcome, carry all revoked keys.
pub async fn accept<T>(
    accepted: Accepted,
    reception: Reception<'_>,
    admit: impl FnOnce(&Hello, &Proof) -> Result<(Welcome, T), Refused>,
) -> Result<(Inbound, Role, T), HandshakeError> {
    let accepting = accept_unhurried(accepted, reception, admit);
    timeout(GREETING_WITHIN, accepting)
        .await
        .unwrap_or(Err(HandshakeError::Silent(GREETING_WITHIN)))
}

async fn accept_unhurried<T>(
    Accepted { stream, origin, .. }: Accepted,
    reception: Reception<'_>,
    admit: impl FnOnce(&Hello, &Proof) -> Result<(Welcome, T), Refused>,
) -> Result<(Inbound, Role, T), HandshakeError> {
    let mut talk = Talk::new(stream);
    let error = match talk.receive(origin, reception).await {
        Ok((hello, proof)) => match admit(&hello, &proof) {
            Ok((welcome, admitted)) => {
                talk.say_welcome(welcome).await?;
                talk.inbound.welcome();
                return Ok((talk.inbound, hello.role, admitted));
            }
            Err(refused) => not_admitted(refused),
        },
        Err(HandshakeError::Closed(Closed::Frame(error))) => {
            let refused = if is_of_version(&error) {
                OWN_VERSIONS
            } else {
                Refused::Malformed(error.to_string())
            };
            denied(refused, format!("it sends {error}"))
        }
        Err(other) => other,
    };
    if let HandshakeError::Denied { refused, .. } = &error {
        // It does not matter whether this can be sent.
        let _ = talk.say(&Message::Refused(refused.clone())).await;
    }
    Err(error)
}

/// A refusal that this side has decided. The other side's message tells its user what to do, which
/// is of no use in this side's log. So the log gets other words.
fn not_admitted(refused: Refused) -> HandshakeError {
    let why = match &refused {
        Refused::NotHere(shard) => format!("it asks for shard {shard}, which is not served here"),
        Refused::FullOfKey(most) => {
            format!("its key has {most} connections, as many as one key may have")
        }
        Refused::KeyEnded(what) => format!("its key is not accepted any more: {what}"),
        Refused::Full(most) => format!("this server has {most} connections, its limit"),
        Refused::Malformed(what) => what.clone(),
        Refused::Key(what) => format!("its key does not allow what it wants: {what}"),
        other => other.to_string(),
    };
    denied(refused, why)
}
