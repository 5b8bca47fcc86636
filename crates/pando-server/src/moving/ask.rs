//! Asks questions of another server, from a thread that may wait.

use std::time::Duration;

use pando_net::{Accepts, Inbound, Keys, Outbound, Shown, Stream, open};
use pando_wire::{Ask, Hosting, Message, Role, Told, encode};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::moving::silent::Silent;
use crate::net::peers::links::usable;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Longest wait for an answer. The other side may have to wait for its disk.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// A server that is asked questions. Its connection is opened again when it breaks.
pub(crate) struct Asked {
    runtime: Runtime,
    volume: [u8; 16],
    keys: Option<Keys>,
    hosting: Hosting,
    open: Option<Open>,
}

struct Open {
    inbound: Inbound,
    out: Outbound,
    /// What the server has shown to prove that it is one.
    shown: Option<Shown>,
}

impl Asked {
    pub(crate) fn new(
        volume: [u8; 16],
        keys: Option<Keys>,
        hosting: Hosting,
    ) -> Result<Self, Silent> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Silent(error.to_string()))?;
        Ok(Self { runtime, volume, keys, hosting, open: None })
    }

    /// Asks one question, and waits for the answer.
    pub(crate) fn ask(&mut self, ask: Ask) -> Result<Told, Silent> {
        let Self { runtime, volume, keys, hosting, open } = self;
        runtime.block_on(async {
            if open.is_none() {
                *open = Some(connect(*volume, keys.as_ref(), hosting).await?);
            }
            let Some(there) = open.as_mut() else {
                return Err(Silent("no connection".to_owned()));
            };
            let told = match (&there.shown, &*keys) {
                // A move takes long: the server's key may have expired or been revoked since.
                (Some(shown), Some(keys)) => keys.judge(shown, Accepts::Servers),
                _ => Ok(()),
            };
            let told = match told {
                Ok(()) => timeout(TOLD_WITHIN, say(&mut there.inbound, &there.out, ask)).await,
                Err(error) => Ok(Err(Silent(error.to_string()))),
            };
            let told = told.unwrap_or_else(|_| {
                Err(Silent(format!("no answer within {} s", TOLD_WITHIN.as_secs())))
            });
            if told.is_err() {
                *open = None;
            }
            told
        })
    }
}

async fn connect(volume: [u8; 16], keys: Option<&Keys>, hosting: &Hosting) -> Result<Open, Silent> {
    let mut why =
        format!("this machine can use none of its addresses: {}", hosting.addresses.join(", "));
    for address in usable(hosting) {
        let attempt = async {
            let stream = Stream::connect(&address).await.map_err(|error| error.to_string())?;
            let opened = open(stream, volume, Role::Tool, keys).await;
            opened.map_err(|error| error.to_string())
        };
        match timeout(CONNECT_WITHIN, attempt).await {
            Ok(Ok(mut opened)) => {
                let out = Outbound::new(&mut opened.inbound);
                return Ok(Open { inbound: opened.inbound, out, shown: opened.shown });
            }
            Ok(Err(error)) => why = format!("{address}: {error}"),
            Err(_) => {
                why = format!("{address}: no connection within {} s", CONNECT_WITHIN.as_secs());
            }
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
        Ok(_) => Err(Silent("it sent an unexpected message".to_owned())),
        Err(closed) => Err(Silent(closed.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use pando_keys::{Authority, KeyRole, Wanted};
    use pando_net::{Listener, Proof, Reception, Serial, accept, this_host};
    use pando_types::{Epoch, ShardIndex};
    use pando_wire::{Address, Hello, Refused, Welcome};

    use super::*;

    const VOLUME: [u8; 16] = [7; 16];

    fn keys(authority: &Authority, name: &str) -> Keys {
        let (role, read_only, squash) = (KeyRole::Server, false, None);
        let (name, addresses) = (name.to_owned(), Vec::new());
        let wanted = Wanted { role, name, read_only, squash, days: 1, addresses };
        Keys::new(&authority.issue(&wanted).unwrap()).unwrap()
    }

    /// Accepts one connection, and answers each question on it until it ends.
    fn answer(keys: &Keys, told: &mpsc::Sender<Address>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = Listener::bind(&Address::Tcp("127.0.0.1".to_owned(), 0)).await.unwrap();
            told.send(listener.address().unwrap()).unwrap();
            let admit = |_: &Hello, _: &Proof| -> Result<(Welcome, ()), Refused> {
                let (hosts, revoked) = (Vec::new(), Vec::new());
                Ok((Welcome { epoch: Epoch(0), in_flight: 1, hosts, revoked }, ()))
            };
            let reception = Reception { volume: VOLUME, keys: Some(keys) };
            let accepted = listener.accept().await.unwrap();
            let mut inbound = accept(accepted, reception, admit).await.unwrap().0;
            let out = Outbound::new(&mut inbound);
            while let Ok((stream, _)) = inbound.message(&mut vec![0; 4096]).await {
                out.append(|bytes| encode(bytes, stream, &Message::Told(Told::Stopping)));
                out.flush();
            }
        });
    }

    #[test]
    fn a_server_whose_key_was_revoked_is_asked_nothing_more() {
        let authority = Authority::create(VOLUME).unwrap();
        let [one, two] = ["one", "two"].map(|name| keys(&authority, name));
        let serial: Serial = two.identity().serial;
        let (told, address) = mpsc::channel();
        let thread = std::thread::spawn(move || answer(&two, &told));
        let addresses = vec![address.recv().unwrap().to_string()];
        let hosting =
            Hosting { shard: ShardIndex(0), epoch: Epoch(1), host: this_host(), addresses };
        let mut asked = Asked::new(VOLUME, Some(one.clone()), hosting).unwrap();
        assert_eq!(asked.ask(Ask::Hosts).unwrap(), Told::Stopping);
        assert_eq!(asked.ask(Ask::Hosts).unwrap(), Told::Stopping);
        one.learn([serial]);
        let Silent(why) = asked.ask(Ask::Hosts).unwrap_err();
        assert!(why.contains("revoked"), "{why}");
        thread.join().unwrap();
    }
}
