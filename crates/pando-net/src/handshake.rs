//! The four words at the beginning of a connection ([`pando_wire::Hello`]), from both sides.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pando_wire::auth::{Secret, Side};
use pando_wire::{
    Challenge, FEATURE_LEVEL, FEATURES_NEEDED, FrameError, Hello, Message, Proof, Refused, Role,
    VERSION, Welcome, encode, uuid,
};
use tokio::time::timeout;

use crate::inbound::{Closed, Inbound};
use crate::stream::Stream;

/// The other side's next word is waited for this long.
const WORD_WITHIN: Duration = Duration::from_secs(10);
const BUFFER: usize = 8 << 10;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side said so.
    #[error("refused: {0}")]
    Refused(#[from] Refused),
    /// This side said so: what it told, and why in words for those who read its log.
    #[error("{why}")]
    Denied {
        /// What the other side is told.
        refused: Refused,
        /// What is wrong with it, as seen from here.
        why: String,
    },
    /// Nobody listens there, or there is no way.
    #[error("cannot connect: {0}")]
    Unreached(io::Error),
    /// It ended, or is no Pando.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// What was dialled is something else.
    #[error("what answers there does not speak Pando's protocol: it sends {0}")]
    Stranger(FrameError),
    /// It says nothing for so long.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It cannot prove to know the secret.
    #[error(
        "the server does not know this secret, it has another one or none: name the file of the server's own with --secret"
    )]
    Impostor,
    /// It was to prove that it knows the secret, and left.
    #[error("it left without a proof that it knows the secret: it may have another one")]
    Unproved,
    /// It says something out of turn.
    #[error("it speaks out of turn")]
    OutOfTurn,
    /// It can do too little.
    #[error(
        "the server has feature level {0}, this program needs at least {needed}: use a newer server",
        needed = FEATURES_NEEDED
    )]
    Features(u32),
    /// It has another volume than was asked for.
    #[error("it has another volume ({})", uuid(.0))]
    OtherVolume([u8; 16]),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Closed(Closed::Io(error))
    }
}

/// A connection that may be used.
#[derive(Debug)]
pub struct Opened {
    /// What comes in.
    pub inbound: Inbound,
    /// Which volume the other side has.
    pub volume: [u8; 16],
    /// What it said.
    pub welcome: Welcome,
}

/// Fresh random bytes.
fn nonce() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Opens a connection as `role`. `volume` zero: any. With a secret the other side must prove that it knows it, too,
/// except over a Unix socket.
pub async fn open(
    stream: Stream,
    volume: [u8; 16],
    role: Role,
    secret: Option<&Secret>,
) -> Result<Opened, HandshakeError> {
    let is_unix = stream.is_unix();
    let mut talk = Talk::new(stream);
    let hello = Hello::new(volume, role, nonce()?);
    talk.say(&hello.clone().into()).await?;
    let first = talk.hear().await.map_err(|error| match error {
        HandshakeError::Closed(Closed::Frame(error)) if !is_of_version(&error) => {
            HandshakeError::Stranger(error)
        }
        other => other,
    })?;
    let challenge = match first {
        Message::Challenge(challenge) => challenge,
        other => return Err(unexpected(other)),
    };
    if volume != [0; 16] && challenge.volume != volume {
        return Err(HandshakeError::OtherVolume(challenge.volume));
    }
    if challenge.features < FEATURES_NEEDED {
        return Err(HandshakeError::Features(challenge.features));
    }
    let prove =
        |side, secret: &Secret| secret.prove(side, &hello, &challenge.volume, &challenge.nonce);
    // Before anything is proved to it.
    if let Some(secret) = secret
        && !is_unix
        && challenge.proof != Some(prove(Side::Acceptor, secret))
    {
        return Err(HandshakeError::Impostor);
    }
    let proof = Proof { proof: secret.map(|secret| prove(Side::Opener, secret)) };
    talk.say(&Message::Proof(proof)).await?;
    match talk.hear().await? {
        Message::Welcome(welcome) => {
            talk.inbound.welcome();
            Ok(Opened { inbound: talk.inbound, volume: challenge.volume, welcome })
        }
        other => Err(unexpected(other)),
    }
}

/// Of another version it may well be Pando's.
const fn is_of_version(error: &FrameError) -> bool {
    matches!(error, FrameError::Version(_))
}

fn unexpected(message: Message) -> HandshakeError {
    match message {
        Message::Refused(refused) => refused.into(),
        _ => HandshakeError::OutOfTurn,
    }
}

/// Who accepts, and what he demands.
#[derive(Clone, Copy, Debug)]
pub struct Reception<'a> {
    /// The volume here.
    pub volume: [u8; 16],
    /// The secret, if there is one.
    pub secret: Option<&'a Secret>,
    /// Whether this connection may do without a proof.
    pub is_trusted: bool,
}

/// Accepts a connection. `admit` decides by the role, once the other side has proved what it must; what it answers is
/// said, whatever it is.
pub async fn accept<T>(
    stream: Stream,
    reception: Reception<'_>,
    admit: impl FnOnce(&Role) -> Result<(Welcome, T), Refused>,
) -> Result<(Inbound, Role, T), HandshakeError> {
    let mut talk = Talk::new(stream);
    let error = match talk.receive(reception).await {
        Ok(role) => match admit(&role) {
            Ok((welcome, admitted)) => {
                talk.say(&Message::Welcome(welcome)).await?;
                talk.inbound.welcome();
                return Ok((talk.inbound, role, admitted));
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
        // That it could be said does not matter.
        let _ = talk.say(&Message::Refused(refused.clone())).await;
    }
    Err(error)
}

const OWN_VERSIONS: Refused = Refused::Version { oldest: VERSION, newest: VERSION };

fn denied(refused: Refused, why: impl Into<String>) -> HandshakeError {
    HandshakeError::Denied { refused, why: why.into() }
}

/// The same words are of no use on both sides: what the other is told to do is not for who reads the log here.
fn not_admitted(refused: Refused) -> HandshakeError {
    let why = match &refused {
        Refused::NotHere(shard) => format!("it asks for shard {shard}, which is not served here"),
        Refused::Full(most) => format!("there are {most} connections, as many as are taken"),
        Refused::Malformed(what) => what.clone(),
        other => other.to_string(),
    };
    denied(refused, why)
}

struct Talk {
    inbound: Inbound,
    buffer: Vec<u8>,
}

impl Talk {
    fn new(stream: Stream) -> Self {
        Self { inbound: Inbound::new(Arc::new(stream)), buffer: vec![0; BUFFER] }
    }

    async fn say(&self, message: &Message) -> Result<(), HandshakeError> {
        let mut bytes = Vec::new();
        encode(&mut bytes, pando_wire::Stream(0), message);
        let write = async {
            let mut sent = 0;
            while sent < bytes.len() {
                self.inbound.stream().writable().await?;
                match self.inbound.stream().try_write(&bytes[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(HandshakeError::from(error)),
                }
            }
            Ok(())
        };
        timeout(WORD_WITHIN, write).await.map_err(|_| HandshakeError::Silent(WORD_WITHIN))?
    }

    async fn hear(&mut self) -> Result<Message, HandshakeError> {
        let heard = timeout(WORD_WITHIN, self.inbound.message(&mut self.buffer)).await;
        Ok(heard.map_err(|_| HandshakeError::Silent(WORD_WITHIN))??.1)
    }

    async fn receive(&mut self, reception: Reception<'_>) -> Result<Role, HandshakeError> {
        let Message::Hello(hello) = self.hear().await? else {
            let what = "it does not begin with a greeting";
            return Err(denied(Refused::Malformed(what.to_owned()), what));
        };
        check(&hello, &reception.volume)?;
        let nonce = nonce()?;
        let prove = |side| {
            let secret = reception.secret?;
            Some(secret.prove(side, &hello, &reception.volume, &nonce))
        };
        let challenge = Challenge {
            volume: reception.volume,
            nonce,
            features: hello.features.min(FEATURE_LEVEL),
            wants_proof: reception.secret.is_some() && !reception.is_trusted,
            proof: prove(Side::Acceptor),
        };
        let wants_proof = challenge.wants_proof;
        self.say(&Message::Challenge(challenge)).await?;
        let proof = match self.hear().await {
            Ok(Message::Proof(Proof { proof })) => proof,
            Ok(_) => {
                let what = "no proof follows the greeting";
                return Err(denied(Refused::Malformed(what.to_owned()), what));
            }
            // So does who finds that this side knows another secret.
            Err(HandshakeError::Closed(Closed::End)) if wants_proof => {
                return Err(HandshakeError::Unproved);
            }
            Err(other) => return Err(other),
        };
        match proof {
            None if wants_proof => {
                Err(denied(Refused::SecretWanted, "it has no secret, and this server demands one"))
            }
            Some(_) if wants_proof && proof != prove(Side::Opener) => {
                Err(denied(Refused::SecretWrong, "its secret is not the one of this server"))
            }
            _ => Ok(hello.role),
        }
    }
}

/// Whether a server of this volume can speak with it.
fn check(hello: &Hello, volume: &[u8; 16]) -> Result<(), HandshakeError> {
    let Hello { oldest, newest, features: found, volume: wanted, .. } = hello;
    if *oldest > VERSION || *newest < VERSION {
        let why = format!(
            "it speaks versions {oldest} to {newest} of the protocol, this server {VERSION}"
        );
        return Err(denied(OWN_VERSIONS, why));
    }
    if *found < FEATURES_NEEDED {
        let (needed, found) = (FEATURES_NEEDED, *found);
        let why = format!("it has feature level {found}, this server needs at least {needed}");
        return Err(denied(Refused::Features { needed, found }, why));
    }
    if *wanted != [0; 16] && wanted != volume {
        let why = format!("it asks for volume {}, this is {}", uuid(wanted), uuid(volume));
        return Err(denied(Refused::Volume(*volume), why));
    }
    Ok(())
}
