//! The beginning and the end of a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pando_types::Errno;
use pando_types::op::{MAX_SLOTS, Op};

use crate::client::{Client, Options, Volume};
use crate::nodes::openers::SYSTEM;
use crate::request::backoff::Backoff;
use crate::request::outcome::Failure;
use crate::request::pending::Via;
use crate::transport::traits::Transport;

/// Longest time for which a new client asks for a session that the disk of shard 0 has no room for,
/// nanoseconds.
const FULL_NANOS: u64 = 10_000_000_000;

impl Client {
    /// Opens a session with default [`Options`].
    pub async fn connect(transport: Arc<dyn Transport>, volume: Volume) -> Result<Self, Errno> {
        Self::connect_with(transport, volume, Options::default()).await
    }

    /// Opens a session. `EINVAL` if an option is out of range.
    pub async fn connect_with(
        transport: Arc<dyn Transport>,
        volume: Volume,
        options: Options,
    ) -> Result<Self, Errno> {
        if !(1..=MAX_SLOTS).contains(&options.slots) {
            return Err(Errno::EINVAL);
        }
        let client = Self::new(transport, volume, options);
        let deadline = client.deadline(Via::Current);
        client.first_session(deadline).await?;
        client.paths.begin(client.version.load(Ordering::Relaxed));
        Ok(client)
    }

    /// Opens the first session. If the disk of shard 0 is full, asks for some time: the shard makes
    /// a checkpoint meanwhile, which makes room.
    async fn first_session(&self, deadline: Option<u64>) -> Result<(), Errno> {
        let mut backoff = Backoff::astray();
        let mut full_since = None;
        loop {
            match self.session_for(deadline).await {
                Err(Errno::ENOSPC) => {
                    let now = self.transport.now_nanos();
                    if now.saturating_sub(*full_since.get_or_insert(now)) >= FULL_NANOS {
                        return Err(Errno::ENOSPC);
                    }
                    backoff.pause_until(self, deadline).await;
                }
                opened => return opened.map(drop),
            }
        }
    }

    /// Ends the session, and closes all that it has open. No call is possible afterwards.
    pub async fn close(&self) -> Result<(), Errno> {
        let deadline = self.deadline(Via::Current);
        self.within(deadline, self.transport.settle()).await.ok_or(Errno::ETIMEDOUT)?;
        let session = self.within(deadline, self.sessions.to_end()).await;
        if let Some(session) = session.ok_or(Errno::ETIMEDOUT)? {
            match self.run(SYSTEM, Op::EndSession(session.id)).await {
                // An earlier copy of this request ended the session, or its lease did.
                Ok(_) | Err(Failure::Over) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        self.sessions.close();
        Ok(())
    }
}
