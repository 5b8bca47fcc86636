//! Opens connections.

use pando_wire::{FEATURES_NEEDED, Hello, Message, Role, Welcome};
use tokio::time::timeout;

use crate::handshake::error::{GREETING_WITHIN, HandshakeError, is_of_version};
use crate::handshake::talk::Talk;
use crate::inbound::{Closed, Inbound};
use crate::stream::Stream;
use crate::tls::{self, Keys, Shown, TlsError};

/// A connection that may be used.
#[derive(Debug)]
pub struct Opened {
    /// Its incoming half.
    pub inbound: Inbound,
    /// The other side's volume.
    pub volume: [u8; 16],
    /// The other side's welcome, with all the keys that it says are revoked.
    pub welcome: Welcome,
    /// The certificates that the other side has sent over TLS.
    pub shown: Option<Shown>,
}

/// Opens a connection as `role`. A `volume` of zero stands for any. Over TCP this side needs a key,
/// and the other side that of a server of the volume.
pub async fn open(
    stream: Stream,
    volume: [u8; 16],
    role: Role,
    keys: Option<&Keys>,
) -> Result<Opened, HandshakeError> {
    let opening = open_unhurried(stream, volume, role, keys);
    timeout(GREETING_WITHIN, opening).await.unwrap_or(Err(HandshakeError::Silent(GREETING_WITHIN)))
}

async fn open_unhurried(
    stream: Stream,
    volume: [u8; 16],
    role: Role,
    keys: Option<&Keys>,
) -> Result<Opened, HandshakeError> {
    let mut talk = Talk::new(stream);
    let mut shown = None;
    if !talk.inbound.stream().is_unix() {
        let keys = keys.ok_or(HandshakeError::NoKey)?;
        let shaken = tls::connect(talk.inbound.stream(), keys).await;
        let shaken = shaken.map_err(|error| match error {
            TlsError::NotTls => HandshakeError::NotTls,
            TlsError::End => Closed::End.into(),
            TlsError::Io(error) => error.into(),
            other => HandshakeError::Tls(other),
        })?;
        shown = Some(shaken.shown.clone());
        talk.secure(shaken)?;
    }
    let revoked = match (&role, keys) {
        (Role::Peer(..), Some(keys)) => keys.told_revoked(),
        _ => Vec::new(),
    };
    let said = talk.say_hello(Hello::new(volume, role, revoked)).await;
    let first = talk.hear().await.map_err(|error| match error {
        HandshakeError::Closed(Closed::Frame(error)) if !is_of_version(&error) => {
            HandshakeError::Stranger(error)
        }
        // TLS tells this side only here that the other side does not accept its key: after its own
        // part of the handshake.
        HandshakeError::Closed(Closed::Alert(alert)) => HandshakeError::Tls(TlsError::Alert(alert)),
        other => other,
    });
    // An answer says more than a failure to send.
    let challenge = match (first, said) {
        (Ok(Message::Challenge(challenge)), Ok(())) => challenge,
        (Ok(other), _) => return Err(unexpected(other)),
        (Err(HandshakeError::Closed(Closed::End | Closed::Io(_))), Err(error))
        | (Err(error), _) => return Err(error),
    };
    if volume != [0; 16] && challenge.volume != volume {
        return Err(HandshakeError::OtherVolume(challenge.volume));
    }
    if challenge.features < FEATURES_NEEDED {
        return Err(HandshakeError::Features(challenge.features));
    }
    match talk.hear().await? {
        Message::Welcome(mut welcome) => {
            talk.hear_revoked(&mut welcome.revoked).await?;
            talk.inbound.welcome();
            Ok(Opened { inbound: talk.inbound, volume: challenge.volume, welcome, shown })
        }
        other => Err(unexpected(other)),
    }
}

fn unexpected(message: Message) -> HandshakeError {
    match message {
        Message::Refused(refused) => refused.into(),
        _ => HandshakeError::OutOfTurn,
    }
}
