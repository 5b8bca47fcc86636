//! The process that a shard leaves.

use std::io;

use pando_types::{Epoch, Lsn, ShardIndex};
use pando_wire::{Hosting, MoveAsk, MoveStage, MoveToken, MoveTold, Moving};

use super::place::{Place, store_name};
use super::{Given, Point};
use crate::Host;
use crate::host::{Changes, MoveRefused, NotGiven};

/// What a source needs of its process.
pub trait Giver {
    /// The shards that run here.
    fn host(&self) -> &Host;
    /// Where they are kept.
    fn place(&self) -> &dyn Place;
    /// It has come to this point; it fails there if a test wants that.
    fn pass(&self, point: Point) -> io::Result<()>;
    /// What runs here no more was given to this host.
    fn is_given(&self, to: &Hosting);
    /// Somebody hosts a shard.
    fn learn(&self, hosting: &Hosting);
    /// How far a move is, as its target says.
    fn hear(&self, _moving: &Moving) {}
    /// How far it is, as is known here.
    fn note(&self, _shard: ShardIndex, _stage: MoveStage) {}
}

/// Answers one word of the target; and whether the shard was given away by this.
pub fn answer(
    giver: &impl Giver,
    shard: ShardIndex,
    token: MoveToken,
    ask: &MoveAsk,
) -> (MoveTold, bool) {
    let over = |refused: MoveRefused| MoveTold::Over(refused.0);
    let host = giver.host();
    let told = match ask {
        MoveAsk::Follow(after) => {
            if after.is_some() {
                let _ = giver.pass(Point::Following);
            }
            host.follow(shard, token, *after).map_or_else(over, changes)
        }
        MoveAsk::Freeze(after) => {
            let told = host.freeze(shard, token, *after);
            if told.is_ok() {
                giver.note(shard, MoveStage::Exchanging);
                let _ = giver.pass(Point::Frozen);
            }
            told.map_or_else(over, changes)
        }
        MoveAsk::GiveAway { last, to } => {
            let given = Given { token, to: to.clone() };
            return give_away(giver, &given, *last);
        }
        MoveAsk::Moved(to) => {
            giver.learn(to);
            MoveTold::Done
        }
        MoveAsk::SoFar(moving) => {
            // Nobody speaks for a shard but who copies it.
            if host.is_followed(shard, token) && moving.shard == shard {
                giver.hear(moving);
            }
            MoveTold::Done
        }
    };
    (told, false)
}

fn give_away(giver: &impl Giver, given: &Given, last: (Epoch, Lsn)) -> (MoveTold, bool) {
    let (shard, place) = (given.to.shard, giver.place());
    match Given::read(place, shard.0) {
        // It may be there and not be durable, if the process that wrote it ended at once.
        Ok(Some(known)) if known.token == given.token => {
            let told = match known.write(place) {
                Ok(()) => MoveTold::Given,
                Err(error) => MoveTold::Unsure(error.to_string()),
            };
            return (told, false);
        }
        Ok(_) => {}
        Err(error) => return (MoveTold::Unsure(error.to_string()), false),
    }
    let draft = match given.draft(place) {
        Ok(draft) => draft,
        Err(error) => return (MoveTold::Over(format!("it cannot be given away: {error}")), false),
    };
    let commit = || draft.commit(place, || giver.pass(Point::Committed));
    match giver.host().give_away(shard, given.token, last, commit) {
        Ok(()) => {
            giver.note(shard, MoveStage::Opening);
            let _ = giver.pass(Point::Given);
            giver.is_given(&given.to);
            (MoveTold::Given, true)
        }
        Err(NotGiven::Refused(refused)) => (MoveTold::Over(refused.0), false),
        Err(NotGiven::Unknown(why)) => (MoveTold::Unsure(why), false),
    }
}

fn changes(changes: Changes) -> MoveTold {
    let Changes { groups, upto, last, epoch, clock, bytes } = changes;
    MoveTold::Changes { groups, upto, last, epoch, clock, bytes }
}

/// Whether nothing is left to be removed of a shard that was given away: it is gone by now, or has come back. `known`: the latest epoch of
/// its host that is known here.
pub fn clear(giver: &impl Giver, shard: ShardIndex, known: Option<Epoch>) -> bool {
    let place = giver.place();
    // It may have come back.
    let Ok(Some(given)) = Given::read(place, shard.0) else { return true };
    // That of `given` is what was expected; who serves says a later one.
    if known.is_none_or(|known| known <= given.to.epoch) {
        return false;
    }
    if giver.host().epoch(shard).is_none() {
        let own = store_name(shard.0);
        let old = format!("{own}.old");
        let _ = place.remove(&old);
        if place.rename(&own, &old).is_ok() {
            let _ = place.remove(&old);
        }
    }
    true
}
