//! Finds shards: in the volume's folder, or through any server that answers.

use std::time::SystemTime;

use pando_net::tls::{Denial, TlsError};
use pando_net::{Accepts, HostsFolder, Inbound, Keys, Shown, newest, this_host};
use pando_types::ShardIndex;
use pando_wire::{Address, Ask, Hosting, Role, Told, VolumeFacts};
use parking_lot::Mutex;

use crate::net::dial::{dial, learn};
use crate::net::in_turn::in_turn;
use crate::net::options::{NetError, NetOptions, Target};
use crate::net::questions::ask;

/// A connection to a shard, with the server's proof.
pub(super) struct Reached {
    pub(super) inbound: Inbound,
    pub(super) judged: Judged,
}

/// The server's proof of being one, and the news ([`Keys::news`]) at which the proof was last
/// judged.
#[derive(Default)]
pub(super) struct Judged {
    shown: Option<Shown>,
    news: u64,
}

/// Knows the volume's servers, and connects to shards.
pub(super) struct Finder {
    target: Target,
    keys: Option<Keys>,
    /// The volume's id; zero until it is known.
    volume: Mutex<[u8; 16]>,
    hosts: Mutex<Vec<Hosting>>,
}

impl Finder {
    pub(super) fn new(target: &Target, options: &NetOptions) -> Self {
        Self {
            target: target.clone(),
            keys: options.keys.clone(),
            volume: Mutex::new(options.volume),
            hosts: Mutex::new(Vec::new()),
        }
    }

    fn volume(&self) -> [u8; 16] {
        *self.volume.lock()
    }

    /// The volume's id, and the keys for its servers.
    pub(super) fn volume_and_keys(&self) -> ([u8; 16], Option<&Keys>) {
        (self.volume(), self.keys.as_ref())
    }

    /// The known shards and their addresses.
    pub(super) fn hosts(&self) -> Vec<Hosting> {
        self.hosts.lock().clone()
    }

    /// Facts of the volume, from the first server that answers.
    pub(super) async fn facts(&self) -> Result<VolumeFacts, NetError> {
        let servers = known(&self.target);
        let asked = servers.iter().map(|address| async move {
            let told = ask(address, self.volume(), self.keys.as_ref(), Ask::Volume).await;
            (address, told)
        });
        let (mut found, mut first) = (None, None);
        in_turn(asked, |(address, told)| {
            match told {
                Ok(Told::Volume(facts)) => found = Some(Ok(*facts)),
                Ok(_) => found = Some(Err(NetError::OutOfTurn(address.clone()))),
                // A refusal says more than a silence.
                Err(error @ NetError::Unreachable { is_refusal: true, .. }) => {
                    found = Some(Err(error));
                }
                Err(error) => drop(first.get_or_insert(error)),
            }
            found.is_some()
        })
        .await;
        let facts = found.unwrap_or_else(|| Err(first.unwrap_or(NetError::NoServer)))?;
        *self.volume.lock() = facts.id;
        newest(&mut self.hosts.lock(), &facts.hosts);
        Ok(facts)
    }

    /// Adds hosts, as if a server had told of them.
    #[cfg(test)]
    pub(super) fn know(&self, hosts: impl Iterator<Item = Hosting>) {
        newest(&mut self.hosts.lock(), &hosts.collect::<Vec<_>>());
    }

    /// Takes in serials of revoked keys.
    pub(super) fn learn(&self, revoked: &[[u8; 16]]) {
        if let Some(keys) = &self.keys {
            learn(keys, revoked);
        }
    }

    /// Judges the server of an open connection again. Its certificate may have expired, or another
    /// server may have told since that it is revoked.
    pub(super) fn judge(&self, judged: &mut Judged, now: SystemTime) -> Result<(), String> {
        let (Some(shown), Some(keys)) = (&judged.shown, &self.keys) else { return Ok(()) };
        if shown.is_expired(now) {
            return Err(TlsError::Peer(Denial::Expired).to_string());
        }
        let news = keys.news();
        if news == judged.news {
            return Ok(());
        }
        judged.news = news;
        keys.judge(shown, Accepts::Servers).map_err(|error| error.to_string())
    }

    /// Connects to a shard.
    pub(super) async fn connect(&self, shard: ShardIndex) -> Result<Reached, String> {
        let hosting = self.hosts.lock().iter().find(|hosting| hosting.shard == shard).cloned();
        let hosting = hosting.ok_or("no server of it is known: start one")?;
        let mut why = None;
        for address in self.usable(&hosting) {
            // Read before the connection is judged, so that later news cause another look.
            let news = self.keys.as_ref().map_or(0, Keys::news);
            match dial(&address, self.volume(), Role::Client(shard), self.keys.as_ref()).await {
                Ok(opened) => {
                    newest(&mut self.hosts.lock(), &opened.welcome.hosts);
                    let judged = Judged { shown: opened.shown, news };
                    return Ok(Reached { inbound: opened.inbound, judged });
                }
                Err(error) => why = why.or(Some(format!("{address}: {error}"))),
            }
        }
        Err(why.unwrap_or_else(|| {
            format!("none of its addresses can be used from here: {}", hosting.addresses.join(", "))
        }))
    }

    /// Addresses that lead to a shard from here. A client that was given network addresses only
    /// uses no Unix sockets.
    pub(super) fn usable(&self, hosting: &Hosting) -> Vec<Address> {
        let is_near = match &self.target {
            Target::Run(_) => true,
            Target::Servers(servers) => servers.iter().any(|at| matches!(at, Address::Unix(_))),
        };
        let takes_unix = is_near && hosting.host == this_host();
        let all = hosting.addresses.iter().filter_map(|address| address.parse().ok());
        all.filter(|address| takes_unix || matches!(address, Address::Tcp(..))).collect()
    }

    /// Looks for shards anew: in the folder, or with every known server.
    pub(super) async fn refresh(&self) {
        if let Target::Run(run) = &self.target {
            newest(&mut self.hosts.lock(), &HostsFolder::new(run).read());
            return;
        }
        let hosts = self.hosts.lock().clone();
        let mut servers = known(&self.target);
        servers.extend(hosts.iter().flat_map(|hosting| self.usable(hosting)));
        servers.sort();
        servers.dedup();
        let asked = servers
            .iter()
            .map(|address| ask(address, self.volume(), self.keys.as_ref(), Ask::Hosts));
        let is_news = |told| match told {
            Ok(Told::Hosts(heard)) => !newest(&mut self.hosts.lock(), &heard).is_empty(),
            _ => false,
        };
        in_turn(asked, is_news).await;
    }
}

/// Servers that can be asked, in order of preference.
fn known(target: &Target) -> Vec<Address> {
    match target {
        Target::Servers(servers) => servers.clone(),
        Target::Run(run) => {
            let (here, mut found) = (this_host(), Vec::new());
            for hosting in HostsFolder::new(run).read() {
                let all = hosting.addresses.iter().filter_map(|address| address.parse().ok());
                let usable = all
                    .filter(|at| hosting.host == here || matches!(at, Address::Tcp(..)))
                    .filter(|at| !found.contains(at))
                    .collect::<Vec<Address>>();
                found.extend(usable);
            }
            found
        }
    }
}
