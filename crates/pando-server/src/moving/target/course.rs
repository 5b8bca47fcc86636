//! The steps of a target, in their order.

use pando_wire::{Hosting, MoveAsk, MoveStage};

use crate::folder::move_notes::{Coming, put_in_place};
use crate::folder::place::copy_name;
use crate::moving::faults::Point;
use crate::moving::target::copy::{Copy, changes};
use crate::moving::target::end::{End, Ended};
use crate::moving::target::taker::Pace;
use crate::moving::target::work::{Answer, Move, PAUSE};

/// Most attempts. A further one is needed if the source could not keep the changes, or too much was
/// left to freeze it.
const ATTEMPTS_MAX: u32 = 5;

/// Most exchanges with one copy. A further one is needed if the source has thawed, or too much was
/// left to freeze it.
const EXCHANGES_MAX: u32 = 10;

impl Move {
    pub(crate) async fn adopt(self, from: Hosting, pace: Pace) -> Result<(), End> {
        if !matches!(Coming::read(self.place(), self.shard.0), Ok(None)) {
            // The source may have given the shard away: then this is the only copy.
            let why = "a whole copy is here already: the next start of the target server judges it";
            return Err(End::Later(why.to_owned()));
        }
        let mut tries = 0;
        loop {
            tries += 1;
            // What is left of an earlier copy would be taken for a part of this one.
            self.place().remove(&copy_name(self.shard.0)).map_err(|error| {
                End::Failed(format!("the target server cannot remove an earlier copy: {error}"))
            })?;
            match self.attempt(&from, pace).await {
                Err(End::Again(why)) if tries < ATTEMPTS_MAX => {
                    self.taker.say(&format!("the move starts again from the beginning: {why}"));
                    self.desk.pause(PAUSE).await;
                }
                end => return end,
            }
        }
    }

    pub(crate) async fn resume(self, mut coming: Coming) -> Result<(), End> {
        self.check_copy(&coming)?;
        // The process that wrote `coming-K` may have ended before it was durable. If the source
        // gave the shard away now, a loss of power here would take the only copy.
        coming.write(self.place()).map_err(|error| {
            End::Later(format!("its copy here is complete, and cannot be noted durably: {error}"))
        })?;
        match self.obtain(&mut coming).await? {
            Answer::Given => self.serve(&coming).await,
            Answer::Over(why) => Err(End::Failed(why)),
        }
    }

    /// Checks that the copy is there. Without a copy the shard must not be asked for.
    pub(crate) fn check_copy(&self, coming: &Coming) -> Result<(), End> {
        let is_there = self.place().exists(&copy_name(self.shard.0));
        match is_there.map(|is_there| is_there || coming.is_taken) {
            Ok(true) => Ok(()),
            Ok(false) => Err(End::Failed("its copy in the target folder is missing".to_owned())),
            Err(error) => Err(End::Later(format!("its copy here cannot be looked at: {error}"))),
        }
    }

    pub(crate) fn finish(&self, end: Result<(), End>) -> Ended {
        let ended = match end {
            Ok(()) => return Ended::Served,
            Err(End::Later(why)) => Ended::Later(why),
            // Removes `coming-K` before the copy. Else a later start would ask for the shard
            // without a copy.
            Err(End::Failed(why) | End::Again(why)) => {
                match Coming::remove(self.place(), self.shard) {
                    Ok(()) => {
                        self.remove_copy();
                        Ended::Stays(why)
                    }
                    Err(error) => Ended::Later(format!(
                        "it stays on its server: {why}. Its copy here cannot be dropped before \
                         the next start ({error})"
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
        // Opens the copy with an epoch one above what `GiveAway` names as the least. So the source
        // can tell that epoch from the one that the new host reports.
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
            // The source serves the shard again, and still keeps its groups for this attempt.
            self.desk.stage(MoveStage::Copying);
            self.desk.pause(PAUSE).await;
        };
        drop(copy);
        self.serve(&coming).await
    }

    /// Removes the copy. Complains if that fails.
    fn remove_copy(&self) {
        let name = copy_name(self.shard.0);
        if let Err(error) = self.place().remove(&name) {
            self.taker.say(&format!("cannot remove {name}: {error}"));
        }
    }

    /// Opens the shard, which is this process's now, and tells the source.
    async fn serve(&self, coming: &Coming) -> Result<(), End> {
        let hosting = self.open(coming).await.map_err(|why| {
            End::Later(format!(
                "it belongs to the target server, which cannot open it: {why}; \
                 the next start tries again"
            ))
        })?;
        self.desk.pass(Point::Opened).await;
        // If this message is lost, the source hears of the new host by the table of hosts.
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
        // The shard is served here whether `coming-K` is gone or not. Giving it away removes
        // `coming-K` first.
        if let Err(error) = Coming::remove(self.place(), self.shard) {
            self.taker.say(&format!("cannot remove the note of its move: {error}"));
        }
        self.desk.announce(epoch).await
    }
}
