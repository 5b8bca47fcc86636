//! Before its first change, a session says to shard 0 that it wants to write. Other mounts' kernels
//! forget before shard 0 agrees (docs/design/holds.md).

use std::sync::Arc;

use pando_types::Errno;
use pando_types::ShardIndex;
use pando_types::hold::Holding;
use pando_types::op::Op;

use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::request::backoff::Backoff;
use crate::request::outcome::{Answer, Failure};
use crate::route::plan::Route;
use crate::session::sessions::Session;

/// Why a session does not write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asleep {
    /// It is over.
    Over,
    /// Shard 0 has not agreed in time, or could not be asked.
    Failed(Errno),
}

impl Client {
    /// Wakes the session. `ETIMEDOUT` after `deadline`: the change was never sent.
    pub(crate) async fn wake(
        &self,
        session: &Arc<Session>,
        deadline: Option<u64>,
    ) -> Result<(), Asleep> {
        let mut backoff = Backoff::recall();
        while !session.stance.is_awake() {
            if session.slots.is_closed() {
                return Err(Asleep::Over);
            }
            // Each request asks. One that waited for another's answer would spin if a transport
            // that is stopped lets no time pass.
            if self.ask_to_write(session, deadline).await? {
                return Ok(());
            }
            if self.is_past(deadline) {
                return Err(Asleep::Failed(Errno::ETIMEDOUT));
            }
            backoff.pause_until(self, deadline).await;
        }
        Ok(())
    }

    /// Asks shard 0 once. Returns whether it agrees.
    async fn ask_to_write(
        &self,
        session: &Arc<Session>,
        deadline: Option<u64>,
    ) -> Result<bool, Asleep> {
        let number = session.stance.wake_number();
        let op = Op::Hold(session.id, Holding::Wake(number));
        let route = Route::Shard(ShardIndex(0));
        let mut pending = self.pending(SYSTEM, (&op).into(), route, self.reading());
        pending.deadline = deadline;
        match self.chase(&pending, &mut false).await {
            Ok(Answer::Final(Ok(_))) => {
                session.stance.woken(number);
                Ok(true)
            }
            Ok(Answer::Final(Err(Failure::Errno(Errno::EBUSY)))) => Ok(false),
            Ok(Answer::Final(Err(failure))) => Err(Asleep::Failed(failure.into())),
            Ok(Answer::NoSession) => {
                self.session_over(session.id);
                Err(Asleep::Over)
            }
            Err(unanswered) => Err(Asleep::Failed(unanswered.into())),
        }
    }
}
