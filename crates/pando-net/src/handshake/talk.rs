//! The messages at the beginning of a connection, one by one, from both sides.

use std::io;
use std::sync::Arc;

use pando_wire::{
    Challenge, FEATURE_LEVEL, FEATURES_NEEDED, Hello, Message, REVOKED_IN_ALL_MAX, REVOKED_MAX,
    Refused, Role, VERSION, Welcome, encode, uuid,
};

use crate::handshake::error::{HandshakeError, OWN_VERSIONS, denied};
use crate::handshake::proof::{Proof, Reception};
use crate::inbound::{Closed, Inbound};
use crate::listener::Origin;
use crate::stream::Stream;
use crate::tls::{self, HEAD, Keys, Shaken, TlsError};
use crate::who::Who;

const BUFFER: usize = 8 << 10;

/// Splits a list of revoked keys into frames. The first holds what is left in `revoked`, and the
/// others are returned. Only the last one is not full; it may be empty.
pub fn pages_of(revoked: &mut Vec<[u8; 16]>) -> Vec<Message> {
    if revoked.len() < REVOKED_MAX {
        return Vec::new();
    }
    let rest = revoked.split_off(REVOKED_MAX);
    let mut pages: Vec<_> = rest.chunks(REVOKED_MAX).map(<[_]>::to_vec).collect();
    if rest.len().is_multiple_of(REVOKED_MAX) {
        pages.push(Vec::new());
    }
    pages.into_iter().map(Message::Revoked).collect()
}

pub(crate) struct Talk {
    pub(crate) inbound: Inbound,
    buffer: Vec<u8>,
}

impl Talk {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { inbound: Inbound::new(Arc::new(stream)), buffer: vec![0; BUFFER] }
    }

    pub(crate) fn secure(&mut self, shaken: Shaken) -> Result<(), Closed> {
        self.inbound.secure(shaken.opener, shaken.sealer, shaken.rest)
    }

    pub(crate) async fn say(&mut self, message: &Message) -> Result<(), HandshakeError> {
        let stream = pando_wire::Stream(0);
        let mut bytes = Vec::new();
        if let Some(sealer) = self.inbound.sealer() {
            bytes.resize(HEAD, 0);
            encode(&mut bytes, stream, message);
            sealer.seal(&mut bytes, 0).map_err(io::Error::other)?;
        } else {
            encode(&mut bytes, stream, message);
        }
        Ok(tls::write(self.inbound.stream(), &bytes).await?)
    }

    /// Sends a greeting, with all revoked keys.
    pub(crate) async fn say_hello(&mut self, mut hello: Hello) -> Result<(), HandshakeError> {
        let pages = pages_of(&mut hello.revoked);
        self.say(&hello.into()).await?;
        self.say_all(&pages).await
    }

    /// Sends a welcome, with all revoked keys.
    pub(crate) async fn say_welcome(&mut self, mut welcome: Welcome) -> Result<(), HandshakeError> {
        let pages = pages_of(&mut welcome.revoked);
        self.say(&Message::Welcome(welcome)).await?;
        self.say_all(&pages).await
    }

    async fn say_all(&mut self, pages: &[Message]) -> Result<(), HandshakeError> {
        for page in pages {
            self.say(page).await?;
        }
        Ok(())
    }

    /// Receives the revoked keys that did not fit into the frame that began with `revoked`.
    pub(crate) async fn hear_revoked(
        &mut self,
        revoked: &mut Vec<[u8; 16]>,
    ) -> Result<(), HandshakeError> {
        let mut last = revoked.len();
        while last >= REVOKED_MAX {
            let Message::Revoked(page) = self.hear().await? else {
                return Err(HandshakeError::OutOfTurn);
            };
            last = page.len();
            revoked.extend(page);
            if revoked.len() > REVOKED_IN_ALL_MAX {
                return Err(HandshakeError::TooManyRevoked);
            }
        }
        Ok(())
    }

    pub(crate) async fn hear(&mut self) -> Result<Message, HandshakeError> {
        Ok(self.inbound.message(&mut self.buffer).await?.1)
    }

    pub(crate) async fn receive(
        &mut self,
        origin: Origin,
        reception: Reception<'_>,
    ) -> Result<(Hello, Proof), HandshakeError> {
        let proof = self.prove(origin, reception.keys).await?;
        let Message::Hello(mut hello) = self.hear().await? else {
            let what = "it does not begin with a greeting";
            return Err(denied(Refused::Malformed(what.to_owned()), what));
        };
        check(&hello, &reception.volume)?;
        // Revoked keys of other sides are not believed, and not read.
        if matches!(hello.role, Role::Peer(..)) && proof.who.is_server() {
            self.hear_revoked(&mut hello.revoked).await?;
        }
        let features = hello.features.min(FEATURE_LEVEL);
        let challenge = Challenge { volume: reception.volume, features };
        self.say(&Message::Challenge(challenge)).await?;
        Ok((hello, proof))
    }

    /// The other side, as the kernel or a key proves it.
    async fn prove(
        &mut self,
        origin: Origin,
        keys: Option<&Keys>,
    ) -> Result<Proof, HandshakeError> {
        match origin {
            Origin::Owner => return Ok(Proof { who: Who::Owner, shown: None }),
            Origin::Stranger(user) => {
                let why = format!("user {user} is neither root nor the folder's owner");
                return Err(denied(Refused::NotOwner(user), why));
            }
            Origin::Network(_) => {}
        }
        let keys = keys.ok_or(HandshakeError::NoKey)?;
        match tls::accept(self.inbound.stream(), keys).await {
            Ok(shaken) => {
                let shown = shaken.shown.clone();
                self.secure(shaken)?;
                Ok(Proof { who: Who::Key(shown.identity().clone()), shown: Some(shown) })
            }
            Err(TlsError::NotTls) => Err(denied(Refused::Plaintext, "it does not speak TLS")),
            Err(TlsError::End) => Err(Closed::End.into()),
            Err(TlsError::Io(error)) => Err(error.into()),
            Err(error) => Err(HandshakeError::Tls(error)),
        }
    }
}

/// Whether a server of `volume` can speak with the sender of this greeting.
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
