//! Judgement of requests that come by a path: whether a directory of their trail has changed.

use pando_types::op::Request;
use pando_types::peer::{Prepare, Seen};
use pando_types::reply::Refusal;
use pando_types::{News, Trail};

use super::TrailState;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::Stop;
use crate::state::txn::transaction::Step;

impl Shard {
    /// Refuses a request with `Stale` if its trail has changed. While this shard does not know what
    /// it has missed, the request waits. It does not wait for ever, because shard 0 may be away.
    pub(crate) fn check_trail(&self, ctx: &Ctx<'_>, request: &Request) -> Result<(), Stop> {
        let Some(trail) = &request.trail else { return Ok(()) };
        match self.paths.versions.judge(trail, None) {
            Some(TrailState::Same) if trail.dirs.len() <= Trail::DIRS_MAX => Ok(()),
            Some(_) => Err(Refusal::Stale.into()),
            None if self.paths.broadcast.is_waiting_in_vain(&self.config, ctx.now.nanos) => {
                Err(Refusal::Stale.into())
            }
            None => Err(Stop::Wait(LockKey::Versions)),
        }
    }

    /// Whether the trail of a transaction's request has changed since, except by the transaction
    /// itself.
    pub(crate) fn has_trail_changed(&self, request: Option<&Request>, steps: &[Step]) -> bool {
        let Some(trail) = request.and_then(|request| request.trail.as_ref()) else { return false };
        let own = steps.iter().find_map(|step| match (&step.prepare, &step.seen) {
            (Prepare::Invalidate { .. }, Some(Seen::Version(version))) => Some(*version),
            _ => None,
        });
        self.paths.versions.judge(trail, own) != Some(TrailState::Same)
    }

    /// Goes with the reply to a request: the newest version known, and what the request's trail has
    /// missed.
    pub(crate) fn news_for(&self, request: &Request) -> (u64, Option<News>) {
        let news = request.trail.as_ref().and_then(|trail| self.paths.versions.news(trail));
        (self.paths.versions.known().unwrap_or(0), news)
    }
}
