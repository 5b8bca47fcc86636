//! What a target does, one thing after the other.

use std::rc::Rc;
use std::time::Duration;

use pando_types::{Epoch, ShardIndex};
use pando_wire::{Hosting, MoveAsk, MoveStage, MoveTold};

use super::copy::{Copy, changes};
use super::desk::Desk;
use super::{End, Ended, Pace, Taker};
use crate::moving::journal::{Coming, put_in_place};
use crate::moving::place::{Place, copy_name};
use crate::moving::{Point, Silent};

/// Attempts, if the source cannot keep what changes, or more changes than can be told while it is
/// frozen.
const ATTEMPTS_MAX: u32 = 5;
/// Exchanges with one copy, likewise.
const EXCHANGES_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// What the source says in the end.
pub(super) enum Answer {
    /// The shard is this process's.
    Given,
    /// The source has gone on, in words why.
    Over(String),
}

/// A move as its target does it.
#[derive(Clone)]
pub(super) struct Move {
    pub(super) taker: Rc<dyn Taker>,
    pub(super) desk: Desk,
    pub(super) shard: ShardIndex,
}

impl Move {
    pub(super) fn place(&self) -> &dyn Place {
        self.taker.place()
    }

    /// A store's files go.
    fn remove_copy(&self) {
        let name = copy_name(self.shard.0);
        if let Err(error) = self.place().remove(&name) {
            self.taker.say(&format!("cannot remove {name}: {error}"));
        }
    }

    pub(super) async fn adopt(self, from: Hosting, pace: Pace) -> Result<(), End> {
        if !matches!(Coming::read(self.place(), self.shard.0), Ok(None)) {
            // The source may have given it away: there may be no other.
            let why = "a whole copy is here already, and is looked at again at the next start";
            return Err(End::Later(why.to_owned()));
        }
        let mut tries = 0;
        loop {
            tries += 1;
            // What is left of an earlier copy would be taken for a part of this one.
            self.place().remove(&copy_name(self.shard.0)).map_err(|error| {
                End::Failed(format!("an earlier copy cannot be removed here: {error}"))
            })?;
            match self.attempt(&from, pace).await {
                Err(End::Again(why)) if tries < ATTEMPTS_MAX => {
                    self.taker.say(&format!("the move begins anew: {why}"));
                    self.desk.pause(PAUSE).await;
                }
                end => return end,
            }
        }
    }

    pub(super) async fn resume(self, mut coming: Coming) -> Result<(), End> {
        if !coming.is_taken && !self.place().exists(&copy_name(self.shard.0)) {
            // Without a copy nothing is to be asked for.
            return Err(End::Failed("its copy is gone".to_owned()));
        }
        match self.obtain(&mut coming).await? {
            Answer::Given => self.serve(&coming).await,
            Answer::Over(why) => Err(End::Failed(why)),
        }
    }

    pub(super) fn finish(&self, end: Result<(), End>) -> Ended {
        let ended = match end {
            Ok(()) => return Ended::Served,
            Err(End::Later(why)) => Ended::Later(why),
            // First what says that the copy is complete: else a later start asks for the shard, and
            // has nothing of it.
            Err(End::Failed(why) | End::Again(why)) => {
                match Coming::remove(self.place(), self.shard) {
                    Ok(()) => {
                        self.remove_copy();
                        Ended::Stays(why)
                    }
                    Err(error) => Ended::Later(format!(
                        "it stays where it was: {why}; its copy here is looked at again at the next start ({error})"
                    )),
                }
            }
        };
        let (Ended::Stays(why) | Ended::Later(why)) = &ended else { return ended };
        self.desk.stage(MoveStage::Failed(why.clone()));
        ended
    }

    async fn attempt(&self, from: &Hosting, pace: Pace) -> Result<(), End> {
        let token = self.taker.token().map_err(End::Failed)?;
        let follow = MoveAsk::Follow(None);
        let begun = changes(self.desk.ask_move(self.shard, token, follow).await?)?;
        self.desk.note(|moving| {
            (moving.stage, moving.copied, moving.total) = (MoveStage::Copying, 0, begun.bytes);
        });
        // One more than the source is told that it will at least be: so its word and its host's are
        // told apart.
        let store = self.taker.open_copy(self.shard, begun.epoch.0 + 2)?;
        let mut copy = Copy::new(self.clone(), token, store, pace, begun.upto);
        copy.records().await?;
        let mut tries = 0;
        let coming = loop {
            tries += 1;
            let why = match copy.exchange(from).await {
                Ok((coming, Answer::Given)) => break coming,
                Ok((_, Answer::Over(why))) | Err(End::Again(why)) => why,
                Err(end) => return Err(end),
            };
            if tries == EXCHANGES_MAX {
                return Err(End::Again(why));
            }
            // It goes on there, and what changes is still kept.
            self.desk.stage(MoveStage::Copying);
            self.desk.pause(PAUSE).await;
        };
        drop(copy);
        self.serve(&coming).await
    }

    /// Asks the source for the shard until it has answered.
    pub(super) async fn obtain(&self, coming: &mut Coming) -> Result<Answer, End> {
        self.desk.stage(MoveStage::Asking);
        let to = self.taker.here(self.shard, Epoch(coming.last.0.0 + 1));
        let mut is_said = false;
        loop {
            let ask = MoveAsk::GiveAway { last: coming.last, to: to.clone() };
            match self.desk.ask_move(self.shard, coming.token, ask).await {
                Ok(MoveTold::Given) => {
                    coming.is_taken = true;
                    return Ok(Answer::Given);
                }
                Ok(MoveTold::Over(why)) => {
                    Coming::remove(self.place(), self.shard)
                        .map_err(|error| End::Failed(error.to_string()))?;
                    return Ok(Answer::Over(why));
                }
                Ok(MoveTold::Unsure(why)) | Err(Silent(why)) => {
                    if !is_said {
                        self.taker.say(&format!(
                            "it is complete here, but the server that it comes from does not say whether it has given it \
                             away; it is asked until it does ({why})"
                        ));
                        is_said = true;
                    }
                    self.desk.pause(PAUSE).await;
                }
                Ok(_) => return Err(End::Later("its host speaks nonsense".to_owned())),
            }
        }
    }

    /// The shard is this process's: opens it, and tells.
    async fn serve(&self, coming: &Coming) -> Result<(), End> {
        let hosting = self.open(coming).await.map_err(|why| {
            End::Later(format!(
                "it is this server's, but cannot be served: {why}; it is tried again at the next start"
            ))
        })?;
        self.desk.pass(Point::Opened).await;
        // If it is not heard now, the source learns it as all others do.
        let _ = self.desk.ask_move(self.shard, coming.token, MoveAsk::Moved(hosting)).await;
        self.desk.stage(MoveStage::Done);
        Ok(())
    }

    async fn open(&self, coming: &Coming) -> Result<Hosting, String> {
        let words = |error: std::io::Error| error.to_string();
        self.desk.stage(MoveStage::Opening);
        coming.write(self.place()).map_err(words)?;
        self.desk.pass(Point::Taken).await;
        put_in_place(self.place(), self.shard).map_err(words)?;
        let epoch = self.desk.open().await?;
        Coming::remove(self.place(), self.shard).map_err(words)?;
        self.desk.announce(epoch).await
    }
}
