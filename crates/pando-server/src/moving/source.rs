//! The process that a shard leaves.

use std::fs;
use std::time::Duration;

use pando_types::ShardIndex;
use pando_wire::{Hosting, MoveAsk, MoveToken, MoveTold};

use super::{Given, Point, Shared};
use crate::host::{Changes, MoveRefused, NotGiven};
use crate::net::say;

/// How often it is looked whether the new host is known.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Answers one word of the target; and whether the shard is given away by now.
pub(super) fn answer(
    shared: &Shared,
    shard: ShardIndex,
    token: MoveToken,
    ask: &MoveAsk,
) -> (MoveTold, bool) {
    let over = |refused: MoveRefused| MoveTold::Over(refused.0);
    let host = &shared.host;
    match ask {
        MoveAsk::Follow(after) => {
            if after.is_some() {
                shared.pass(Point::Following);
            }
            (host.follow(shard, token, *after).map_or_else(over, changes), false)
        }
        MoveAsk::Freeze(after) => {
            let told = host.freeze(shard, token, *after);
            if told.is_ok() {
                shared.going.lock().stands_still(shard);
                shared.pass(Point::Frozen);
            }
            (told.map_or_else(over, changes), false)
        }
        MoveAsk::GiveAway { last, to } => {
            let given = Given { token, to: to.clone() };
            match Given::read(&shared.folder, shard.0) {
                // It may be there and not be durable, if the process that wrote it ended at once.
                Ok(Some(known)) if known.token == token => {
                    let told = match known.write(&shared.folder) {
                        Ok(()) => MoveTold::Given,
                        Err(error) => MoveTold::Unsure(error.to_string()),
                    };
                    return (told, false);
                }
                Ok(_) => {}
                Err(error) => return (MoveTold::Unsure(error.to_string()), false),
            }
            let draft = match given.draft(&shared.folder) {
                Ok(draft) => draft,
                Err(error) => {
                    return (MoveTold::Over(format!("it cannot be given away: {error}")), false);
                }
            };
            let commit = || draft.commit(&shared.folder, || shared.fail_at(Point::Committed));
            match host.give_away(shard, token, *last, commit) {
                Ok(()) => {
                    shared.going.lock().is_given(shard);
                    shared.pass(Point::Given);
                    is_given(shared, shard, to);
                    (MoveTold::Given, true)
                }
                Err(NotGiven::Refused(refused)) => (over(refused), false),
                Err(NotGiven::Unknown(why)) => (MoveTold::Unsure(why), false),
            }
        }
        MoveAsk::Moved(to) => {
            if let Some(hosts) = shared.hosts.get() {
                hosts.learn(std::slice::from_ref(to));
            }
            (MoveTold::Done, false)
        }
        MoveAsk::SoFar(moving) => {
            // Nobody speaks for a shard but who copies it.
            if host.is_followed(shard, token) && moving.shard == shard {
                shared.going.lock().hear(moving.clone());
            }
            (MoveTold::Done, false)
        }
    }
}

fn changes(changes: Changes) -> MoveTold {
    let Changes { groups, upto, last, epoch, clock, bytes } = changes;
    MoveTold::Changes { groups, upto, last, epoch, clock, bytes }
}

fn is_given(shared: &Shared, shard: ShardIndex, to: &Hosting) {
    if let Some(server) = shared.server.get().and_then(std::sync::Weak::upgrade) {
        server.close_shard(shard);
        server.hosts().learn(std::slice::from_ref(to));
    }
    shared.lock.lock().release(shard.0);
    say(&format!("shard {shard} is given to the server at {}", to.addresses.join(" or ")));
}

/// Removes what is left of a shard that was given away, once its new host is known to serve it.
pub(super) fn clear(shared: &Shared, shard: ShardIndex) {
    remove_old(shared, shard);
    shared.going.lock().is_over(shard);
}

fn remove_old(shared: &Shared, shard: ShardIndex) {
    while !shared.is_stopped() {
        // It may have come back.
        let Ok(Some(given)) = Given::read(&shared.folder, shard.0) else { return };
        let known = shared.hosts.get().and_then(|hosts| hosts.get(shard));
        // That of `given` is what was expected; who serves says a later one.
        if known.is_some_and(|known| known.epoch > given.to.epoch) {
            let lock = shared.lock.lock();
            if shared.host.epoch(shard).is_none()
                && Given::read(&shared.folder, shard.0).is_ok_and(|now| now == Some(given))
            {
                let (own, old) = (shared.folder.shard(shard.0), shared.folder.shard(shard.0));
                let old = old.with_extension("old");
                shared.remove(&old);
                if fs::rename(&own, &old).is_ok() {
                    shared.remove(&old);
                }
            }
            drop(lock);
            return;
        }
        shared.pause(LOOK_EVERY);
    }
}
