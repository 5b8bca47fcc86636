//! From a new connection to whoever serves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pando_net::{Accepted, Closed, HandshakeError, Listener, Reception, accept};
use pando_types::{Epoch, ShardIndex};
use pando_wire::auth::Secret;
use pando_wire::{Refused, Role, Welcome};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::hosts::Hosts;
use super::limits::Limits;
use super::tool::{self, Answer};
use super::worker::{Arriving, Place, Workers};
use super::{say, say_end};
use crate::host::Host;

/// Who has not come in by then is shown out.
const GREETING_WITHIN: Duration = Duration::from_secs(15);
/// Connections of tools beyond the limit.
const TOOLS_MORE: u32 = 16;

/// What is needed to let somebody in.
pub(super) struct Door {
    pub(super) host: Arc<Host>,
    pub(super) volume: [u8; 16],
    pub(super) secret: Option<Secret>,
    pub(super) limits: Limits,
    pub(super) hosts: Arc<Hosts>,
    pub(super) answer: Answer,
    pub(super) workers: Workers,
    /// Connections there are.
    pub(super) connections: Arc<AtomicU32>,
    /// One permit for each connection that is not let in yet.
    pub(super) greetings: Arc<Semaphore>,
}

/// Accepts for ever.
pub(super) async fn listen(door: Arc<Door>, listener: Listener) {
    loop {
        // Others wait in the system's own queue.
        let Ok(permit) = door.greetings.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok(accepted) => {
                tokio::spawn(receive(door.clone(), accepted, permit));
            }
            Err(error) => {
                // Out of descriptors, or the other side is gone already.
                say(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn receive(
    door: Arc<Door>,
    Accepted { stream, from }: Accepted,
    permit: OwnedSemaphorePermit,
) {
    let reception = Reception {
        volume: door.volume,
        secret: door.secret.as_ref(),
        is_trusted: stream.is_unix(),
    };
    let admit = |role: &Role| {
        let place = door.take_place(role)?;
        door.admit(role).map(|welcome| (welcome, place))
    };
    let greeting = timeout(GREETING_WITHIN, accept(stream, reception, admit)).await;
    drop(permit);
    match greeting.unwrap_or(Err(HandshakeError::Silent(GREETING_WITHIN))) {
        Ok((inbound, role, place)) => door.hand_over(inbound, role, from, place).await,
        Err(error @ HandshakeError::Denied { .. }) => {
            say(&format!("refused a connection from {from}: {error}"));
        }
        // It looked whether somebody listens, or went away.
        Err(HandshakeError::Closed(Closed::End | Closed::Io(_))) => {}
        Err(HandshakeError::Closed(closed)) => {
            say_end(&format!("the connection from {from}"), &closed)
        }
        Err(error) => say(&format!("closed the connection from {from}: {error}")),
    }
}

impl Door {
    fn take_place(&self, role: &Role) -> Result<Place, Refused> {
        let count = self.connections.fetch_add(1, Ordering::AcqRel);
        let place = Place(self.connections.clone());
        // A tool must get in where clients cannot any more.
        let more = if matches!(role, Role::Tool) { TOOLS_MORE } else { 0 };
        if count >= self.limits.connections.saturating_add(more) {
            return Err(Refused::Full(self.limits.connections));
        }
        Ok(place)
    }

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
        let worker = self.workers.get(shard);
        match (worker, inbound.detach()) {
            (Some(worker), Ok(inbound)) => {
                // The thread ends with the process, or when the shard has left it.
                let _ = worker.send(Arriving { inbound, from, speakers, place });
            }
            (_, Err(error)) => say(&format!("lost the connection from {from}: {error}")),
            (None, _) => {}
        }
    }
}
