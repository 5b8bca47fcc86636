//! A move as its target does it, and the question for the shard.

use std::rc::Rc;
use std::time::Duration;

use pando_types::{Epoch, ShardIndex};
use pando_wire::{MoveAsk, MoveStage, MoveTold};

use crate::folder::move_notes::Coming;
use crate::folder::place::Place;
use crate::moving::silent::Silent;
use crate::moving::target::desk::Desk;
use crate::moving::target::end::End;
use crate::moving::target::taker::Taker;

pub(crate) const PAUSE: Duration = Duration::from_millis(200);

/// The source's last word on the move.
pub(crate) enum Answer {
    /// The shard is this process's.
    Given,
    /// The source has gone on, for this reason.
    Over(String),
}

/// A move as its target does it.
#[derive(Clone)]
pub(crate) struct Move {
    pub(crate) taker: Rc<dyn Taker>,
    pub(crate) desk: Desk,
    pub(crate) shard: ShardIndex,
}

impl Move {
    pub(crate) fn place(&self) -> &dyn Place {
        self.taker.place()
    }

    /// Asks the source for the shard until it answers.
    pub(crate) async fn obtain(&self, coming: &mut Coming) -> Result<Answer, End> {
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
                            "its copy here is complete, but its server does not say whether it has \
                             given the shard away; this server asks until it does ({why})"
                        ));
                        is_said = true;
                    }
                    self.desk.pause(PAUSE).await;
                }
                Ok(_) => return Err(End::Later("its server sent an invalid reply".to_owned())),
            }
        }
    }
}
