//! Questions to one server.

use std::time::Duration;

use pando_net::{HandshakeError, Inbound, Keys, Outbound};
use pando_wire::{Address, Ask, Message, Role, Stream, Told, encode};
use tokio::time::timeout;

use crate::net::dial::dial;
use crate::net::options::{NetError, unreachable};

/// Most time for an answer to a question.
const TOLD_WITHIN: Duration = Duration::from_secs(60);
const BUFFER: usize = 64 << 10;

/// A connection for questions.
pub(super) struct Questions {
    pub(super) address: Address,
    inbound: Inbound,
    out: Outbound,
    buffer: Vec<u8>,
}

impl Questions {
    pub(super) async fn open(
        address: &Address,
        volume: [u8; 16],
        keys: Option<&Keys>,
    ) -> Result<Self, NetError> {
        let mut opened = dial(address, volume, Role::Tool, keys)
            .await
            .map_err(|error| unreachable(address, &error))?;
        let out = Outbound::new(&mut opened.inbound);
        let buffer = vec![0; BUFFER];
        Ok(Self { address: address.clone(), inbound: opened.inbound, out, buffer })
    }

    pub(super) async fn ask(&mut self, ask: Ask) -> Result<Told, NetError> {
        self.out.append(|bytes| encode(bytes, Stream(1), &Message::Ask(ask)));
        self.out.flush();
        let told = timeout(TOLD_WITHIN, self.inbound.message(&mut self.buffer)).await;
        match told.map_err(|_| unreachable(&self.address, &HandshakeError::Silent(TOLD_WITHIN)))? {
            Ok((_, Message::Told(told))) => Ok(told),
            Ok(_) => Err(NetError::OutOfTurn(self.address.clone())),
            Err(closed) => Err(unreachable(&self.address, &closed.into())),
        }
    }
}

/// Asks one server a question.
pub(super) async fn ask(
    address: &Address,
    volume: [u8; 16],
    keys: Option<&Keys>,
    ask: Ask,
) -> Result<Told, NetError> {
    Questions::open(address, volume, keys).await?.ask(ask).await
}
