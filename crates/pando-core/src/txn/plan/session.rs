//! Sessions begin and end on all shards, or nowhere.

use alloc::vec::Vec;
use pando_types::op::Place;
use pando_types::peer::{Change, Prepare};
use pando_types::reply::Body;
use pando_types::{SessionId, ShardIndex};

use super::{Decision, Next, View};
use crate::ctx::Stop;

/// See the module.
#[derive(Debug)]
pub struct Session {
    /// The session that ends; `None`: one begins, numbered as its transaction.
    ends: Option<SessionId>,
}

impl Session {
    pub fn new(ends: Option<SessionId>) -> Self {
        Self { ends }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let session = self.ends.unwrap_or(SessionId(view.txn.number));
        let asked = view.votes.0.len() as u16;
        if asked < view.shard.config.map.shards {
            return Ok(Next::Ask(Place::Shard(ShardIndex(asked)), Prepare::Session(session)));
        }
        let change = match self.ends {
            Some(session) => Change::EndSession(session),
            None => Change::OpenSession(session),
        };
        let changes: Vec<_> = (0..usize::from(asked)).map(|step| (step, change.clone())).collect();
        let body = if self.ends.is_some() { Body::Done } else { Body::Session(session) };
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body }))
    }
}
