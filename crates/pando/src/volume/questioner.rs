//! Sends queries to the servers of a volume.

use std::time::Duration;

use pando_client::net::{NetError, Tool};
use pando_net::Keys;
use pando_types::ShardIndex;
use pando_wire::{Address, Ask, Told, VolumeFacts};

use super::named::Named;
use crate::failure::Failure;

/// Sends queries to all servers of a volume, on a runtime of its own.
pub struct Questioner {
    runtime: tokio::runtime::Runtime,
    tool: Tool,
}

impl Questioner {
    pub fn new(named: &Named, keys: Option<Keys>) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::plain)?;
        let (target, options) = (named.target(), named.options(keys));
        let tool = runtime
            .block_on(Tool::connect(&target, &options))
            .map_err(|error| named.explain(&error))?;
        Ok(Self { runtime, tool })
    }

    pub const fn facts(&self) -> &VolumeFacts {
        self.tool.facts()
    }

    /// The processes that serve shards: the addresses and the shards of each.
    pub fn processes(&self) -> Vec<(Vec<Address>, Vec<ShardIndex>)> {
        self.tool.processes()
    }

    /// Asks the process that serves a shard.
    pub fn ask_shard(&mut self, shard: ShardIndex, ask: Ask) -> Result<Told, NetError> {
        self.runtime.block_on(self.tool.ask_shard(shard, ask))
    }

    /// Asks many processes at once, and waits at most `within` for each.
    pub fn ask_each(
        &self,
        processes: &[Vec<Address>],
        ask: &Ask,
        within: Duration,
    ) -> Vec<Result<Told, NetError>> {
        self.runtime.block_on(self.tool.ask_each(processes, ask, within))
    }

    /// Asks the process behind these addresses.
    pub fn ask(&mut self, addresses: &[Address], ask: Ask) -> Result<Told, NetError> {
        self.runtime.block_on(self.tool.ask(addresses, ask))
    }
}
