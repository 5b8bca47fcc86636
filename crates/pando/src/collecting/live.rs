//! A running volume as the source of a collection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pando_client::block_on;
use pando_fsck::{Page, Rows, Watched};
use pando_net::Keys;
use pando_types::op::{Head, ObjectId, Op, Request};
use pando_types::watch::{Settled, Watching};
use pando_types::{Credentials, ShardIndex};
use pando_wire::{Ask, Told, VolumeFacts};

use crate::failure::Failure;
use crate::sources::served::Served;
use crate::volume::connect::{Connected, connect};
use crate::volume::map::whole_map;
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// Interval at which a shard is asked whether its transactions have ended.
const PAUSE: Duration = Duration::from_millis(20);
/// Time limit for the transactions of one shard to end.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Live {
    rows: Served,
    connected: Connected,
    shards: u16,
    /// When the wait for a shard began.
    waits: Option<Instant>,
    /// Set by another thread to end the collection.
    stop: Arc<AtomicBool>,
}

impl Live {
    /// Connects to the volume. The collection ends soon after `stop` is true.
    pub fn new(named: &Named, keys: Option<Keys>, stop: Arc<AtomicBool>) -> Result<Self, Failure> {
        let mut questioner = Questioner::new(named, keys.clone())?;
        let shards = whole_map(&mut questioner).shards;
        let connected = connect(named, keys)?;
        Ok(Self { rows: Served::new(questioner), connected, shards, waits: None, stop })
    }

    pub const fn facts(&self) -> &VolumeFacts {
        &self.connected.facts
    }

    pub const fn shards(&self) -> u16 {
        self.shards
    }

    fn ask(&mut self, shard: ShardIndex, ask: Ask) -> Result<Told, String> {
        match self.rows.ask(shard, ask) {
            Ok(Told::Failed(why)) => Err(why),
            Ok(told) => Ok(told),
            Err(error) => Err(format!("shard {shard} does not answer: {error}")),
        }
    }
}

impl Rows for Live {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        self.rows.page(shard, from, bytes)
    }
}

impl Watched for Live {
    fn watch(&mut self, shard: ShardIndex, id: u64) -> Result<Watching, String> {
        match self.ask(shard, Ask::Watch(shard, id))? {
            Told::Watching(watching) => Ok(watching),
            _ => Err(format!("the server of shard {shard} sent an unexpected reply")),
        }
    }

    fn settle(&mut self, shard: ShardIndex, id: u64, first: ObjectId) -> Result<Settled, String> {
        match self.ask(shard, Ask::Settle(shard, id, first))? {
            Told::Settled(settled) => {
                if settled != Settled::NotYet {
                    self.waits = None;
                }
                Ok(settled)
            }
            _ => Err(format!("the server of shard {shard} sent an unexpected reply")),
        }
    }

    fn sync(&mut self, shard: ShardIndex) -> Result<(), String> {
        let op = Op::Sync(shard);
        let (head, credentials) = (Head::default(), Credentials::ROOT);
        let request = Request { head, credentials, op, trail: None };
        let reply = block_on(self.connected.transport.call(shard, request.into()));
        match reply.map(|reply| reply.result) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refusal)) => Err(format!("shard {shard} cannot sync its log: {refusal}")),
            Err(_) => Err(format!("shard {shard} does not answer")),
        }
    }

    fn pause(&mut self) -> Result<(), String> {
        let since = *self.waits.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(format!("a transaction has not ended for {seconds} s"));
        }
        std::thread::sleep(PAUSE);
        self.go_on()
    }

    fn go_on(&self) -> Result<(), String> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err("the process is stopping".to_owned()),
            false => Ok(()),
        }
    }
}
