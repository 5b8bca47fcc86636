//! Reads rows of a running volume page by page from its servers.

use pando_client::net::NetError;
use pando_fsck::{Gap, Page, Rows};
use pando_types::ShardIndex;
use pando_wire::{Ask, SCAN_MAX, Told};

use crate::volume::questioner::Questioner;

/// Largest page, in bytes. While a shard reads a page it does nothing else.
const PAGE_MAX: u32 = 256 << 10;

/// Rows of a running volume, read over the network.
pub struct Served(Questioner);

impl Served {
    pub const fn new(questioner: Questioner) -> Self {
        Self(questioner)
    }
}

impl Served {
    /// Asks the process that serves a shard.
    pub fn ask(&mut self, shard: ShardIndex, ask: Ask) -> Result<Told, NetError> {
        self.0.ask_shard(shard, ask)
    }
}

impl Rows for Served {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        let bytes = u32::try_from(bytes).unwrap_or(SCAN_MAX).min(PAGE_MAX);
        let ask = Ask::Scan { shard, from: from.to_vec(), bytes };
        match self.0.ask_shard(shard, ask) {
            Ok(Told::Rows { rows, is_last }) => Ok(Page { rows, is_last, gap: None }),
            Ok(Told::Gap { keys, why }) => {
                Ok(Page { gap: Some(Gap { keys, why }), ..Page::default() })
            }
            Ok(Told::Failed(why)) => Err(why),
            Ok(_) => Err(format!("the server of shard {shard} sent an unexpected reply")),
            Err(error) => Err(format!("shard {shard} cannot be read: {error}")),
        }
    }
}
