//! Sessions begin and end on all shards, or nowhere.

use alloc::vec::Vec;
use pando_types::op::Place;
use pando_types::peer::{Change, Prepare};
use pando_types::reply::Body;
use pando_types::{KeyId, SessionId, ShardIndex};

use super::{Decision, Next, View};
use crate::ctx::Stop;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub enum Session {
    /// One begins, numbered as its transaction.
    Begins {
        /// See [`SessionId::is_local`].
        is_local: bool,
        /// Whose it will be.
        key: KeyId,
    },
    /// This one ends.
    Ends(SessionId),
}

impl Session {
    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let session = match *self {
            Self::Begins { is_local, .. } => SessionId::new(view.txn.number, is_local),
            Self::Ends(session) => session,
        };
        let asked = view.votes.0.len() as u16;
        if asked < view.shard.config.map.shards {
            return Ok(Next::Ask(Place::Shard(ShardIndex(asked)), Prepare::Session(session)));
        }
        let (change, body) = match self {
            Self::Begins { key, .. } => {
                (Change::OpenSession(session, *key), Body::Session(session))
            }
            Self::Ends(_) => (Change::EndSession(session), Body::Done),
        };
        let changes: Vec<_> = (0..usize::from(asked)).map(|step| (step, change.clone())).collect();
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body }))
    }
}
