//! From a new connection to whoever serves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pando_net::{Accepted, HandshakeError, Listener, Reception, accept};
use pando_types::{Epoch, ShardIndex};
use pando_wire::auth::Secret;
use pando_wire::{Refused, Role, Welcome};
use tokio::sync::mpsc;

use super::hosts::Hosts;
use super::limits::Limits;
use super::say;
use super::tool::{self, Answer};
use super::worker::{Arriving, Place};
use crate::host::Host;

/// What is needed to let somebody in.
pub(super) struct Door {
    pub(super) host: Arc<Host>,
    pub(super) volume: [u8; 16],
    pub(super) secret: Option<Secret>,
    pub(super) limits: Limits,
    pub(super) hosts: Arc<Hosts>,
    pub(super) answer: Answer,
    /// By shard; `None`: hosted elsewhere.
    pub(super) workers: Vec<Option<mpsc::UnboundedSender<Arriving>>>,
    /// Connections there are.
    pub(super) connections: Arc<AtomicU32>,
}

/// Accepts for ever.
pub(super) async fn listen(door: Arc<Door>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                tokio::spawn(receive(door.clone(), accepted));
            }
            Err(error) => {
                // Out of descriptors, or the other side is gone already.
                say(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn receive(door: Arc<Door>, Accepted { stream, from }: Accepted) {
    let count = door.connections.fetch_add(1, Ordering::AcqRel);
    let place = Place(door.connections.clone());
    // A tool must get in where clients cannot any more.
    let is_full = |role: &Role| {
        count >= door.limits.connections.saturating_add(u32::from(matches!(role, Role::Tool)) * 16)
    };
    let reception = Reception {
        volume: door.volume,
        secret: door.secret.as_ref(),
        is_trusted: stream.is_unix(),
    };
    let admit = |role: &Role| {
        if is_full(role) {
            return Err(Refused::Full(door.limits.connections));
        }
        door.admit(role).map(|welcome| (welcome, ()))
    };
    match accept(stream, reception, admit).await {
        Ok((inbound, role, ())) => door.hand_over(inbound, role, from, place).await,
        Err(HandshakeError::Refused(refused)) => {
            say(&format!("refused a connection from {from}: {refused}"));
        }
        Err(HandshakeError::Silent) => {
            say(&format!("closed the connection from {from}: it said nothing"));
        }
        // It looked whether somebody listens, or went away.
        Err(_) => {}
    }
}

impl Door {
    fn admit(&self, role: &Role) -> Result<Welcome, Refused> {
        let epoch = match role {
            Role::Tool => Epoch(0),
            Role::Client(shard) | Role::Peer(shard, _) => {
                self.host.epoch(*shard).ok_or(Refused::NotHere(*shard))?
            }
        };
        if let Role::Peer(_, speakers) = role {
            self.hosts.check(speakers).map_err(|shard: ShardIndex| {
                Refused::Malformed(format!("shard {shard} was started elsewhere since"))
            })?;
            self.hosts.learn(speakers);
        }
        Ok(Welcome { epoch, in_flight: self.limits.in_flight, hosts: self.hosts.all() })
    }

    async fn hand_over(&self, inbound: pando_net::Inbound, role: Role, from: String, place: Place) {
        let (shard, speakers) = match role {
            Role::Tool => {
                tool::serve(inbound, from, self.answer.clone()).await;
                return drop(place);
            }
            Role::Client(shard) => (shard, None),
            Role::Peer(shard, speakers) => (shard, Some(speakers)),
        };
        let worker = self.workers.get(usize::from(shard.0)).and_then(Option::as_ref);
        match (worker, inbound.detach()) {
            (Some(worker), Ok(inbound)) => {
                // The thread ends only with the process.
                let _ = worker.send(Arriving { inbound, from, speakers, place });
            }
            (_, Err(error)) => say(&format!("lost the connection from {from}: {error}")),
            (None, _) => {}
        }
    }
}
