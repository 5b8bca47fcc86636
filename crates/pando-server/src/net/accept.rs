//! Admits new connections, and hands each to the thread that serves it.

use std::sync::Arc;
use std::time::Duration;

use pando_net::{
    Accepted, Closed, GREETING_WITHIN, HandshakeError, Inbound, Keys, Listener, Origin, Proof,
    Reception, Who, accept,
};
use pando_types::{Epoch, ShardIndex};
use pando_wire::{Hello, Refused, Role, Welcome};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::host::shards::Host;
use crate::net::bounds::greetings::{Greeting, Greetings};
use crate::net::bounds::limits::Limits;
use crate::net::bounds::murmur::Murmur;
use crate::net::keys::guests::{Guests, Place};
use crate::net::keys::revoked::Revoked;
use crate::net::keys::roles::of_role;
use crate::net::peers::hosts::Hosts;
use crate::net::serving::threads::{Arriving, Workers};
use crate::net::serving::tool::{self, Answer};

/// The parts of a server that admit a connection.
pub(crate) struct Door {
    pub(crate) host: Arc<Host>,
    pub(crate) volume: [u8; 16],
    pub(crate) keys: Option<Keys>,
    pub(crate) limits: Limits,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) revoked: Arc<Revoked>,
    pub(crate) answer: Answer,
    pub(crate) workers: Workers,
    /// Connections that are admitted.
    pub(crate) guests: Arc<Guests>,
    /// Connections over TCP that are not admitted yet.
    pub(crate) greetings: Arc<Greetings>,
    pub(crate) murmur: Murmur,
}

/// Accepts connections for ever.
pub(crate) async fn listen(door: Arc<Door>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                let greeting = match accepted.origin {
                    Origin::Network(address) => Some(door.greetings.enter(address)),
                    // A Unix socket: the kernel knows the other side's user.
                    Origin::Owner | Origin::Stranger(_) => None,
                };
                tokio::spawn(receive(door.clone(), accepted, greeting));
                // Handshakes go on between new connections, however many come.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                // The process has no descriptors left, or the other side is gone already.
                door.murmur(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn receive(
    door: Arc<Door>,
    accepted: Accepted,
    greeting: Option<(Greeting, oneshot::Receiver<()>)>,
) {
    let from = accepted.from.clone();
    let is_owner = accepted.origin == Origin::Owner;
    let (greeting, leave) = greeting.unzip();
    let greet = timeout(GREETING_WITHIN, door.greet(accepted, greeting.as_ref()));
    let greeted = match leave {
        None => greet.await,
        Some(mut leave) => {
            let mut greet = std::pin::pin!(greet);
            let ended = std::future::poll_fn(|context| {
                if let std::task::Poll::Ready(greeted) = greet.as_mut().poll(context) {
                    return std::task::Poll::Ready(Some(greeted));
                }
                std::pin::Pin::new(&mut leave).poll(context).map(|_| None)
            });
            match ended.await {
                Some(greeted) => greeted,
                None => {
                    return door.murmur(&format!(
                        "closed the connection from {from} in its handshake: its place was needed"
                    ));
                }
            }
        }
    };
    drop(greeting);
    let error = match greeted.unwrap_or(Err(HandshakeError::Silent(GREETING_WITHIN))) {
        Ok((inbound, role, (who, place))) => {
            let from = if is_owner { from } else { format!("{from} ({who})") };
            return door.hand_over(inbound, role, who, from, place).await;
        }
        Err(error) => error,
    };
    match error {
        HandshakeError::Denied { .. } | HandshakeError::Tls(_) => {
            door.murmur(&format!("refused a connection from {from}: {error}"));
        }
        // The other side has looked whether this server listens, or has gone.
        HandshakeError::Closed(Closed::End | Closed::Io(_)) => {}
        error => door.murmur(&format!("closed the connection from {from}: {error}")),
    }
}

impl Door {
    /// Writes a line to the log that strangers can cause, within limits.
    fn murmur(&self, what: &str) {
        self.murmur.say(what);
    }

    async fn greet(
        &self,
        accepted: Accepted,
        greeting: Option<&Greeting>,
    ) -> Result<(Inbound, Role, (Who, Place)), HandshakeError> {
        if let Some(greeting) = greeting {
            accepted.stream.readable().await?;
            greeting.has_spoken();
        }
        let reception = Reception { volume: self.volume, keys: self.keys.as_ref() };
        let admit = |hello: &Hello, proof: &Proof| {
            if !of_role(&hello.role).admits(&proof.who) {
                let what = "a connection between shards needs a server's key";
                return Err(Refused::Key(what.to_owned()));
            }
            // The place comes before the welcome. What is revoked later is told to all that have a
            // place.
            let keys = self.keys.as_ref();
            let place = self.guests.enter(proof, &hello.role, keys, &self.limits)?;
            self.admit(hello).map(|welcome| (welcome, (proof.who.clone(), place)))
        };
        accept(accepted, reception, admit).await
    }

    fn admit(&self, hello: &Hello) -> Result<Welcome, Refused> {
        let role = &hello.role;
        let epoch = match role {
            Role::Tool => Epoch(0),
            Role::Client(shard) | Role::Peer(shard, _) => {
                self.host.epoch(*shard).ok_or(Refused::NotHere(*shard))?
            }
        };
        if let Role::Peer(_, speakers) = role {
            self.hosts.check(speakers).map_err(|shard: ShardIndex| {
                Refused::Malformed(format!("another server has started shard {shard} since"))
            })?;
            self.hosts.learn(speakers);
            self.revoked.learn(&hello.revoked);
        }
        let (in_flight, revoked) = (self.limits.in_flight, self.revoked.told());
        Ok(Welcome { epoch, in_flight, hosts: self.hosts.all(), revoked })
    }

    async fn hand_over(&self, inbound: Inbound, role: Role, who: Who, from: String, place: Place) {
        let (shard, speakers) = match role {
            Role::Tool => {
                place.serve(inbound.stream());
                let murmur = self.workers.murmur();
                tool::serve(inbound, from, who, self.answer.clone(), murmur).await;
                return drop(place);
            }
            Role::Client(shard) => (shard, None),
            Role::Peer(shard, speakers) => (shard, Some(speakers)),
        };
        let worker = self.workers.get(shard);
        match (worker, inbound.detach()) {
            (Some(worker), Ok(inbound)) => {
                // The shard's thread has ended: the process stops, or the shard has left it.
                let _ = worker.send(Arriving { inbound, from, who, speakers, place });
            }
            (_, Err(error)) => self.murmur(&format!("lost the connection from {from}: {error}")),
            (None, _) => {}
        }
    }
}
