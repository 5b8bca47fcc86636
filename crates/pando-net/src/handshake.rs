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
    /// It ended, or is no Pando.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// It says nothing.
    #[error("no answer within {} s", WORD_WITHIN.as_secs())]
    Silent,
    /// It cannot prove to know the secret.
    #[error("the server does not know the secret: it has another one, or none (--secret)")]
    Impostor,
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
    let challenge = match talk.hear().await? {
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
    match talk.receive(reception).await {
        Ok(role) => match admit(&role) {
            Ok((welcome, admitted)) => {
                talk.say(&Message::Welcome(welcome)).await?;
                talk.inbound.welcome();
                Ok((talk.inbound, role, admitted))
            }
            Err(refused) => Err(talk.refuse(refused).await),
        },
        Err(HandshakeError::Refused(refused)) => Err(talk.refuse(refused).await),
        Err(HandshakeError::Closed(Closed::Frame(FrameError::Version(_)))) => {
            Err(talk.refuse(Refused::Version { oldest: VERSION, newest: VERSION }).await)
        }
        Err(HandshakeError::Closed(Closed::Frame(error))) => {
            Err(talk.refuse(Refused::Malformed(error.to_string())).await)
        }
        Err(other) => Err(other),
    }
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
        timeout(WORD_WITHIN, write).await.map_err(|_| HandshakeError::Silent)?
    }

    async fn hear(&mut self) -> Result<Message, HandshakeError> {
        let heard = timeout(WORD_WITHIN, self.inbound.message(&mut self.buffer)).await;
        Ok(heard.map_err(|_| HandshakeError::Silent)??.1)
    }

    async fn receive(&mut self, reception: Reception<'_>) -> Result<Role, HandshakeError> {
        let Message::Hello(hello) = self.hear().await? else {
            return Err(Refused::Malformed("it does not begin with a greeting".to_owned()).into());
        };
        if hello.oldest > VERSION || hello.newest < VERSION {
            return Err(Refused::Version { oldest: VERSION, newest: VERSION }.into());
        }
        if hello.features < FEATURES_NEEDED {
            let (needed, found) = (FEATURES_NEEDED, hello.features);
            return Err(Refused::Features { needed, found }.into());
        }
        if hello.volume != [0; 16] && hello.volume != reception.volume {
            return Err(Refused::Volume(reception.volume).into());
        }
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
        let Message::Proof(Proof { proof }) = self.hear().await? else {
            return Err(Refused::Malformed("no proof follows the greeting".to_owned()).into());
        };
        match proof {
            None if wants_proof => return Err(Refused::SecretWanted.into()),
            Some(_) if wants_proof && proof != prove(Side::Opener) => {
                return Err(Refused::SecretWrong.into());
            }
            _ => {}
        }
        Ok(hello.role)
    }

    /// Says why not; that it could be said does not matter.
    async fn refuse(&self, refused: Refused) -> HandshakeError {
        let _ = self.say(&Message::Refused(refused.clone())).await;
        refused.into()
    }
}
