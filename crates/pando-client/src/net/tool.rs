//! Questions to servers, one after the other, over connections that stay open.

use std::time::Duration;

use futures_util::future::join_all;
use pando_net::HandshakeError;
use pando_types::ShardIndex;
use pando_wire::{Address, Ask, Hosting, Told, VolumeFacts};
use tokio::time::timeout;

use crate::net::finder::Finder;
use crate::net::options::{NetError, NetOptions, Target, unreachable};
use crate::net::questions::{self, Questions};

/// The servers of a volume, for a tool that asks them questions.
pub struct Tool {
    finder: Finder,
    facts: VolumeFacts,
    kept: Vec<Questions>,
}

impl Tool {
    /// Finds the volume's servers. Call it, and all the other methods, in a tokio runtime.
    pub async fn connect(target: &Target, options: &NetOptions) -> Result<Self, NetError> {
        let finder = Finder::new(target, options);
        let facts = finder.facts().await?;
        finder.refresh().await;
        Ok(Self { finder, facts, kept: Vec::new() })
    }

    /// Facts of the volume.
    #[must_use]
    pub const fn facts(&self) -> &VolumeFacts {
        &self.facts
    }

    /// Addresses and shards of each server process.
    #[must_use]
    pub fn processes(&self) -> Vec<(Vec<Address>, Vec<ShardIndex>)> {
        let mut processes: Vec<(Vec<Address>, Vec<ShardIndex>)> = Vec::new();
        for hosting in self.finder.hosts() {
            let addresses = self.finder.usable(&hosting);
            match processes.iter_mut().find(|(known, _)| *known == addresses) {
                Some((_, shards)) => shards.push(hosting.shard),
                None => processes.push((addresses, vec![hosting.shard])),
            }
        }
        processes
    }

    /// Asks the process that serves `shard`.
    pub async fn ask_shard(&mut self, shard: ShardIndex, ask: Ask) -> Result<Told, NetError> {
        let hosts: Vec<Hosting> = self.finder.hosts();
        let hosting = hosts.iter().find(|hosting| hosting.shard == shard);
        let addresses = hosting.map_or_else(Vec::new, |hosting| self.finder.usable(hosting));
        self.ask(&addresses, ask).await
    }

    /// Asks the process behind the first of these addresses that answers.
    pub async fn ask(&mut self, addresses: &[Address], ask: Ask) -> Result<Told, NetError> {
        let mut first = None;
        for address in addresses {
            match self.ask_at(address, ask.clone()).await {
                Ok(told) => return Ok(told),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or(NetError::NoServer))
    }

    /// Asks many processes at once, each over connections of its own. A process that takes longer
    /// than `within` counts as silent.
    pub async fn ask_each(
        &self,
        processes: &[Vec<Address>],
        ask: &Ask,
        within: Duration,
    ) -> Vec<Result<Told, NetError>> {
        let (volume, keys) = self.finder.volume_and_keys();
        let asked = processes.iter().map(|addresses| async move {
            let asking = async {
                let mut first = None;
                for address in addresses {
                    match questions::ask(address, volume, keys, ask.clone()).await {
                        Ok(told) => return Ok(told),
                        Err(error) => first = first.or(Some(error)),
                    }
                }
                Err(first.unwrap_or(NetError::NoServer))
            };
            let Some(address) = addresses.first() else { return Err(NetError::NoServer) };
            let silent = || Err(unreachable(address, &HandshakeError::Silent(within)));
            timeout(within, asking).await.unwrap_or_else(|_| silent())
        });
        join_all(asked).await
    }

    async fn ask_at(&mut self, address: &Address, ask: Ask) -> Result<Told, NetError> {
        let kept = self.kept.iter().position(|kept| kept.address == *address);
        let mut questions = match kept {
            Some(at) => self.kept.swap_remove(at),
            None => {
                let (volume, keys) = self.finder.volume_and_keys();
                Questions::open(address, volume, keys).await?
            }
        };
        let told = questions.ask(ask).await?;
        self.kept.push(questions);
        Ok(told)
    }
}
