//! Links to shards of other processes: one connection to each. The net thread opens them, and opens
//! them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use pando_net::{Accepts, Closed, Keys, Opened, Outbound, Shown, Stream, open, this_host};
use pando_types::peer::Peer;
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::{Address, Hosting, Role, encode_peer};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use crate::calls::connection::PeerLinks;
use crate::common::log::say;
use crate::net::keys::revoked::Revoked;
use crate::net::peers::hosts::Hosts;

/// A connection that is not made within this time is tried at another address.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// All links of a process.
pub(crate) struct Links {
    /// By shard. Links to shards that run here stay unused.
    links: Vec<Link>,
    limit: usize,
    /// Number of messages that could not be sent.
    pub(crate) dropped: AtomicU64,
}

#[derive(Default)]
struct Link {
    current: Mutex<Option<Current>>,
    is_dirty: AtomicBool,
}

/// A connection that is open.
struct Current {
    out: Arc<Outbound>,
    /// What the other side has shown to prove that it is a server.
    shown: Option<Shown>,
}

/// What a link needs to be opened.
pub(crate) struct Way {
    pub(crate) volume: [u8; 16],
    pub(crate) keys: Option<Keys>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) revoked: Arc<Revoked>,
}

impl Links {
    pub(crate) fn new(limit: usize) -> Self {
        let links = (0..SHARDS_MAX).map(|_| Link::default()).collect();
        Self { links, limit, dropped: AtomicU64::new(0) }
    }

    fn link(&self, shard: ShardIndex) -> &Link {
        &self.links[usize::from(shard.0)]
    }

    /// Closes all links, so that they are opened again. Each link tells at its beginning which
    /// shards run here, and that has changed.
    pub(crate) fn reopen(&self) {
        for link in &self.links {
            if let Some(current) = link.current.lock().take() {
                current.out.close();
            }
        }
    }

    /// Closes links with certificates that have expired.
    pub(crate) fn expire(&self, now: SystemTime) {
        for link in &self.links {
            let mut current = link.current.lock();
            let shown = current.as_ref().and_then(|current| current.shown.as_ref());
            if shown.is_some_and(|shown| shown.is_expired(now))
                && let Some(current) = current.take()
            {
                current.out.close();
            }
        }
    }

    /// Keeps the link to `shard` open for ever, except while the shard runs here.
    pub(crate) async fn keep(self: Arc<Self>, shard: ShardIndex, way: Arc<Way>) {
        let mut pause = PAUSE_MIN;
        let mut is_said = true;
        loop {
            way.hosts.afar(shard).await;
            let begun = Instant::now();
            match self.once(shard, &way, is_said).await {
                Ok(()) => {
                    pause = PAUSE_MIN;
                    is_said = false;
                    // A server that admits a link and ends it at once must not be tried without
                    // end.
                    if begun.elapsed() < PAUSE_MAX {
                        sleep(pause).await;
                        way.hosts.refresh();
                    }
                }
                Err(why) => {
                    if !is_said && pause >= PAUSE_MAX {
                        say(&format!("shard {shard} cannot be reached: {why}"));
                        is_said = true;
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    way.hosts.refresh();
                }
            }
        }
    }

    /// Opens one connection, and serves it until it ends.
    async fn once(&self, shard: ShardIndex, way: &Way, is_said: bool) -> Result<(), String> {
        let hosting = way.hosts.get(shard).ok_or("its address is unknown: start its server")?;
        let opened = connect(shard, &hosting, way).await?;
        way.hosts.learn(&opened.welcome.hosts);
        way.revoked.learn(&opened.welcome.revoked);
        let mut inbound = opened.inbound;
        let out = Arc::new(Outbound::new(&mut inbound));
        {
            let mut current = self.link(shard).current.lock();
            // Judges again what has changed since the handshake began. Any later change finds the
            // link in the table.
            if let (Some(shown), Some(keys)) = (&opened.shown, &way.keys) {
                keys.judge(shown, Accepts::Servers).map_err(|error| error.to_string())?;
            }
            *current = Some(Current { out: out.clone(), shown: opened.shown });
        }
        if is_said {
            say(&format!("shard {shard} can be reached again"));
        }
        let mut buffer = vec![0; 4096];
        // The other side never speaks on a link, so this waits for its end.
        let listen = async {
            match inbound.message(&mut buffer).await {
                Ok(_) => "it sent an unexpected message".to_owned(),
                Err(Closed::End) => "it has ended".to_owned(),
                Err(closed) => closed.to_string(),
            }
        };
        let drive = out.drive();
        tokio::pin!(listen, drive);
        std::future::poll_fn(|context| {
            if drive.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            listen.as_mut().poll(context).map(drop)
        })
        .await;
        // If the link was closed from outside, another connection may be there by now.
        self.link(shard).current.lock().take_if(|current| Arc::ptr_eq(&current.out, &out));
        out.close();
        Ok(())
    }
}

/// Tries all addresses of a host, best first.
async fn connect(shard: ShardIndex, hosting: &Hosting, way: &Way) -> Result<Opened, String> {
    let mut why = format!("it has no address that can be used from here: {:?}", hosting.addresses);
    for address in usable(hosting) {
        let attempt = async {
            let stream = Stream::connect(&address).await.map_err(|error| error.to_string())?;
            let role = Role::Peer(shard, way.hosts.own());
            open(stream, way.volume, role, way.keys.as_ref())
                .await
                .map_err(|error| error.to_string())
        };
        match timeout(CONNECT_WITHIN, attempt).await {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(error)) => why = format!("{address}: {error}"),
            Err(_) => {
                why = format!("{address}: no connection within {} s", CONNECT_WITHIN.as_secs());
            }
        }
    }
    Err(why)
}

/// Addresses of a host that can be used from this machine.
pub(crate) fn usable(hosting: &Hosting) -> Vec<Address> {
    let is_here = hosting.host == this_host();
    let all = hosting.addresses.iter().filter_map(|address| address.parse().ok());
    all.filter(|address| is_here || matches!(address, Address::Tcp(..))).collect()
}

impl PeerLinks for Links {
    fn send(&self, to: ShardIndex, peer: &Peer) {
        // The volume has no shard of a higher index.
        let Some(link) = self.links.get(usize::from(to.0)) else { return };
        match &*link.current.lock() {
            Some(Current { out, .. }) if out.waiting() < self.limit => {
                let mut fits = true;
                out.append(|bytes| fits = encode_peer(bytes, peer));
                if !fits {
                    say(&format!(
                        "a message of shard {} to shard {to} is too long for a frame and was not sent: transaction {} waits",
                        peer.from, peer.txn
                    ));
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
                link.is_dirty.store(true, Ordering::Release);
            }
            _ => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn flush(&self) {
        for link in &self.links {
            // Most links are never used.
            if !link.is_dirty.load(Ordering::Acquire)
                || !link.is_dirty.swap(false, Ordering::AcqRel)
            {
                continue;
            }
            let current = link.current.lock().as_ref().map(|current| current.out.clone());
            if let Some(out) = current {
                out.flush();
            }
        }
    }
}
