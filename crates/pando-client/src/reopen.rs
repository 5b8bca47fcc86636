//! The next session, when one is over: a client that was out of reach, or asleep, for longer than
//! its lease goes on.
//!
//! What becomes of requests that were under way is in [`crate::call`]. What is open is opened anew:
//!
//! - By number, where the node table or the link shard says it is, once for each file however often
//!   it is open here.
//! - With the system's credentials and without asking for access: that was checked when it was
//!   opened, and whoever has a file open keeps it, whatever `chmod` said since.
//! - Never truncated.
//! - Locks of programs are lost ([`crate::locks`]).
//! - A file that is gone by now (nobody held it for us) answers `ESTALE` whenever it is used, and
//!   is closed in silence.

use std::sync::Arc;

use pando_types::op::{FileRef, Op};
use pando_types::reply::Body;
use pando_types::{Errno, Ino, SessionId, ShardIndex};

use crate::backoff::Backoff;
use crate::call::{Answer, Failure, Unanswered, Via, stale};
use crate::client::{Client, SYSTEM};
use crate::join::join_all;
use crate::route::Route;
use crate::sessions::{Lead, Need, Session, Sessions};

/// Why no session was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotOpened {
    /// Shard 0 says so.
    Refused(Errno),
    /// Nobody says anything.
    Unanswered(Unanswered),
}

impl From<NotOpened> for Errno {
    fn from(why: NotOpened) -> Self {
        match why {
            NotOpened::Refused(errno) => errno,
            NotOpened::Unanswered(why) => why.into(),
        }
    }
}

impl Client {
    /// The current session; opens the next one where there is none, or waits for who does.
    pub(crate) async fn session_for(&self, deadline: Option<u64>) -> Result<Arc<Session>, Errno> {
        loop {
            let need = self.within(deadline, self.sessions.need(false)).await;
            match need.ok_or(Errno::ETIMEDOUT)? {
                Need::Has(session) => return Ok(session),
                Need::Closed => return Err(Errno::EIO),
                Need::Leads(lead) => {
                    self.within(deadline, self.reopen(lead)).await.ok_or(Errno::ETIMEDOUT)??;
                }
            }
        }
    }

    pub(crate) async fn reopen(&self, mut lead: Lead<'_>) -> Result<(), NotOpened> {
        let mut backoff = Backoff::astray();
        loop {
            let route = Route::Shard(ShardIndex(0));
            let op = if self.transport.is_local() { Op::OpenLocalSession } else { Op::OpenSession };
            let errand = self.errand(SYSTEM, (&op).into(), route, self.reading());
            let id = match self.chase(&errand, &mut false).await.map_err(NotOpened::Unanswered)? {
                Answer::Final(Ok(Body::Session(id))) => id,
                // Another session is alone, and was just told to end that.
                Answer::Final(Err(Failure::Errno(Errno::EBUSY))) => {
                    backoff.pause(self).await;
                    continue;
                }
                Answer::Final(Err(failure)) => return Err(NotOpened::Refused(failure.into())),
                _ => return Err(NotOpened::Refused(Errno::EIO)),
            };
            let session = Session::new(id, self.options.slots);
            lead.prepare(&session);
            if !is_planted!(OpensNotClaimed) {
                self.claim_opens(&session).await;
            }
            if lead.install() {
                self.counters.session_begun();
                self.locks.session_begun(session.id);
                return Ok(());
            }
            // This one is over, too.
        }
    }

    /// Opens in `session` what is open.
    async fn claim_opens(&self, session: &Arc<Session>) {
        let open = self.nodes.open_files();
        join_all(open.into_iter().map(|file| self.claim(session, file))).await;
    }

    /// One open of `file` in `session`, which counts there unless it was closed meanwhile.
    async fn claim(&self, session: &Arc<Session>, file: FileRef) {
        let open = |file| Op::Open { file, access: 0, truncate: false, kill: None };
        if self.on_file(Via::In(session), SYSTEM, &file, open).await.is_err() {
            return;
        }
        // What becomes of a release, nobody waits to hear.
        let _ = if self.nodes.held(file.ino, session.id) {
            self.let_go(&file).await
        } else {
            self.release_in(session, &file).await
        };
    }

    /// Sees to it that `ino`, which was opened in a session that is over by now, counts as open in
    /// the current one.
    pub(crate) async fn hold(&self, ino: Ino) {
        loop {
            let Ok(file) = self.file(ino, Errno::EISDIR) else { return };
            let open = |file| Op::Open { file, access: 0, truncate: false, kill: None };
            let opened = self.on_file_told(Via::Current, SYSTEM, &file, open, None).await;
            let Ok((_, session)) = opened else { return };
            let is_known = {
                let state = self.sessions.state();
                state.is_live(session).then(|| self.nodes.held(ino, session))
            };
            // What becomes of a release, nobody waits to hear.
            let _ = match (is_known, find(&self.sessions, session)) {
                (Some(true), _) => self.let_go(&file).await,
                (Some(false), Some(session)) => self.release_in(&session, &file).await,
                (Some(false), None) => Ok(()),
                (None, _) => continue,
            };
            return;
        }
    }

    /// Releases what counts as open at the shards and is not open here.
    pub(crate) async fn let_go(&self, file: &FileRef) -> Result<(), Errno> {
        self.let_go_in(file, self.nodes.take_excess(file.ino)).await
    }

    /// The same, where in which session there is one is known.
    pub(crate) async fn let_go_in(
        &self,
        file: &FileRef,
        mut excess: Option<SessionId>,
    ) -> Result<(), Errno> {
        while let Some(session) = excess.and_then(|id| find(&self.sessions, id)) {
            self.release_in(&session, file).await?;
            excess = self.nodes.take_excess(file.ino);
        }
        Ok(())
    }

    /// One open less in `session`; with the session, it is over.
    pub(crate) async fn release_in(
        &self,
        session: &Arc<Session>,
        file: &FileRef,
    ) -> Result<(), Errno> {
        match self.on_file_told(Via::In(session), SYSTEM, file, Op::Release, None).await {
            Ok(_) | Err(Failure::Over) => Ok(()),
            Err(failure) => Err(stale(failure.into())),
        }
    }
}

/// `None`: the session is over, and with it all that was open in it.
pub(crate) fn find(sessions: &Sessions, id: SessionId) -> Option<Arc<Session>> {
    sessions.state().find(id)
}
