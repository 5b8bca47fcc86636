//! Questions to another server, by a thread that may wait.

use std::time::Duration;

use pando_net::{Inbound, Keys, Outbound, Stream, open};
use pando_types::ShardIndex;
use pando_wire::{Ask, Hosting, Message, MoveAsk, MoveToken, MoveTold, Role, Told, encode};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::net::links::usable;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// The other side may have to wait for its disk.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// A server that is asked, over a connection that is opened anew when it breaks.
pub(super) struct Asked {
    runtime: Runtime,
    volume: [u8; 16],
    keys: Option<Keys>,
    hosting: Hosting,
    open: Option<(Inbound, Outbound)>,
}

/// It did not answer, in words why.
#[derive(Debug)]
pub(super) struct Silent(pub(super) String);

impl Asked {
    pub(super) fn new(
        volume: [u8; 16],
        keys: Option<Keys>,
        hosting: Hosting,
    ) -> Result<Self, Silent> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Silent(error.to_string()))?;
        Ok(Self { runtime, volume, keys, hosting, open: None })
    }

    /// Asks something about a move.
    pub(super) fn ask_move(
        &mut self,
        shard: ShardIndex,
        token: MoveToken,
        ask: MoveAsk,
    ) -> Result<MoveTold, Silent> {
        match self.ask(Ask::Move(shard, token, ask))? {
            Told::Move(told) => Ok(told),
            Told::Failed(why) => Ok(MoveTold::Over(why)),
            _ => Err(Silent("it answered something else".to_owned())),
        }
    }

    /// Asks one thing.
    pub(super) fn ask(&mut self, ask: Ask) -> Result<Told, Silent> {
        let Self { runtime, volume, keys, hosting, open } = self;
        runtime.block_on(async {
            if open.is_none() {
                *open = Some(connect(*volume, keys.as_ref(), hosting).await?);
            }
            let Some((inbound, out)) = open.as_mut() else {
                return Err(Silent("no connection".to_owned()));
            };
            let told = timeout(TOLD_WITHIN, say(inbound, out, ask)).await;
            let told = told.unwrap_or_else(|_| Err(Silent("no answer".to_owned())));
            if told.is_err() {
                *open = None;
            }
            told
        })
    }
}

async fn connect(
    volume: [u8; 16],
    keys: Option<&Keys>,
    hosting: &Hosting,
) -> Result<(Inbound, Outbound), Silent> {
    let mut why = format!("no address leads there from here: {}", hosting.addresses.join(", "));
    for address in usable(hosting) {
        let attempt = async {
            let stream = Stream::connect(&address).await.map_err(|error| error.to_string())?;
            let opened = open(stream, volume, Role::Tool, keys).await;
            opened.map_err(|error| error.to_string())
        };
        match timeout(CONNECT_WITHIN, attempt).await {
            Ok(Ok(mut opened)) => {
                let out = Outbound::new(&mut opened.inbound);
                return Ok((opened.inbound, out));
            }
            Ok(Err(error)) => why = format!("{address}: {error}"),
            Err(_) => why = format!("{address}: no connection"),
        }
    }
    Err(Silent(why))
}

async fn say(inbound: &mut Inbound, out: &Outbound, ask: Ask) -> Result<Told, Silent> {
    out.append(|bytes| encode(bytes, pando_wire::Stream(1), &Message::Ask(ask)));
    out.flush();
    while out.waiting() > 0 && !out.is_closed() {
        out.stream().writable().await.map_err(|error| Silent(error.to_string()))?;
        out.flush();
    }
    let mut buffer = vec![0; 64 << 10];
    match inbound.message(&mut buffer).await {
        Ok((_, Message::Told(told))) => Ok(told),
        Ok(_) => Err(Silent("it speaks out of turn".to_owned())),
        Err(closed) => Err(Silent(closed.to_string())),
    }
}
