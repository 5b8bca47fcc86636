//! The beginning of a connection, from both sides: TLS over TCP, then the messages of
//! [`pando_wire::Hello`].

use std::io;
use std::time::Duration;

use pando_wire::{
    FEATURES_NEEDED, FrameError, Hello, Message, REVOKED_IN_ALL_MAX, Refused, Role, VERSION,
    Welcome, uuid,
};
use tokio::time::timeout;

use crate::inbound::{Closed, Inbound};
use crate::listener::Accepted;
use crate::stream::{Impostor, Stream};
use crate::talk::{Talk, denied};
use crate::tls::{self, Keys, Shown, TlsError};
use crate::who::Who;

/// Most time for all of it, TLS and messages together.
pub const GREETING_WITHIN: Duration = Duration::from_secs(10);

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side refused the connection.
    #[error("refused: {0}")]
    Refused(#[from] Refused),
    /// This side refused the connection.
    #[error("{why}")]
    Denied {
        /// What the other side is told.
        refused: Refused,
        /// The reason for this side's log, in words.
        why: String,
    },
    /// No process listens there, or the network does not reach it.
    #[error("cannot connect: {0}")]
    Unreached(io::Error),
    /// The process that listens there may not serve.
    #[error(transparent)]
    Impostor(Impostor),
    /// The connection ended, or its bytes are not of Pando.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// What answers there does not speak Pando's protocol.
    #[error("what answers there does not speak Pando's protocol: it sends {0}")]
    Stranger(FrameError),
    /// What answers there does not speak TLS. It is no server, or an old one.
    #[error("what answers there does not speak TLS: it is no server of Pando, or an old one")]
    NotTls,
    /// Over TCP a key is needed, and there is none.
    #[error(
        "over TCP a key is needed: name the file of one with --key (`pando auth add NAME` makes it)"
    )]
    NoKey,
    /// The TLS handshake failed.
    #[error(transparent)]
    Tls(TlsError),
    /// The other side has not answered within this time.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// A message came out of turn.
    #[error("it speaks out of turn")]
    OutOfTurn,
    /// The other side names more revoked keys than a process takes in.
    #[error("it names more than {REVOKED_IN_ALL_MAX} revoked keys, which nobody takes in")]
    TooManyRevoked,
    /// The server's feature level is too low.
    #[error(
        "the server has feature level {0}, this program needs at least {needed}: use a newer server",
        needed = FEATURES_NEEDED
    )]
    Features(u32),
    /// The other side has another volume than was asked for.
    #[error("it has another volume ({})", uuid(.0))]
    OtherVolume([u8; 16]),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Closed(Closed::Io(error))
    }
}

impl HandshakeError {
    /// The error of a connection that cannot be made.
    #[must_use]
    pub fn unreached(error: io::Error) -> Self {
        error.downcast().map_or_else(Self::Unreached, Self::Impostor)
    }
}

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

/// Whether the frame has another version, so that it may well be Pando's.
const fn is_of_version(error: &FrameError) -> bool {
    matches!(error, FrameError::Version(_))
}

fn unexpected(message: Message) -> HandshakeError {
    match message {
        Message::Refused(refused) => refused.into(),
        _ => HandshakeError::OutOfTurn,
    }
}

/// The other side of a connection, and the proof of it.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The other side.
    pub who: Who,
    /// The certificates that it has sent over TLS.
    pub shown: Option<Shown>,
}

/// The side that accepts connections.
#[derive(Clone, Copy, Debug)]
pub struct Reception<'a> {
    /// Its volume.
    pub volume: [u8; 16],
    /// Its key for connections over TCP.
    pub keys: Option<&'a Keys>,
}

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

pub(crate) const OWN_VERSIONS: Refused = Refused::Version { oldest: VERSION, newest: VERSION };

/// A refusal that this side has decided. The other side's message tells its user what to do, which
/// is of no use in this side's log. So the log gets other words.
fn not_admitted(refused: Refused) -> HandshakeError {
    let why = match &refused {
        Refused::NotHere(shard) => format!("it asks for shard {shard}, which is not served here"),
        Refused::FullOfKey(most) => {
            format!("its key has {most} connections, as many as one key may have")
        }
        Refused::KeyEnded(what) => format!("its key is not accepted any more: {what}"),
        Refused::Full(most) => format!("there are {most} connections, as many as are taken"),
        Refused::Malformed(what) => what.clone(),
        Refused::Key(what) => format!("its key does not allow what it wants: {what}"),
        other => other.to_string(),
    };
    denied(refused, why)
}
