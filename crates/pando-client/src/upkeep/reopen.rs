//! Opens the next session when one is over. So a client goes on after it was out of reach, or
//! asleep, for longer than its lease.
//!
//! [`crate::request::run`] tells what becomes of pending requests. Open files are opened anew:
//!
//! - By ino, where the node table or the link shard says the file is. Once for each file, however
//!   often it is open here.
//! - As the superuser ([`SYSTEM`]), and without a check of access. That was checked at the first
//!   open, and a process that has a file open keeps it, whatever `chmod` did since.
//! - Never with truncation.
//! - Locks of programs are lost ([`crate::session::locks`]).
//! - A file that is gone, since no open kept it, answers `ESTALE` to each use, and is closed in
//!   silence.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::stream::{self, StreamExt};
use pando_types::op::{FileRef, Op};
use pando_types::reply::Body;
use pando_types::{Errno, Ino, SessionId, ShardIndex};

use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::request::outcome::{Answer, Failure, Unanswered, stale};
use crate::request::pending::Via;
use crate::route::plan::Route;
use crate::session::sessions::{Asker, Lead, Need, Session};

/// Most files that are opened at once.
const CLAIMS_MAX: usize = 128;

/// Why no session was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotOpened {
    /// Shard 0 refused.
    Refused(Errno),
    /// No answer came.
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
    /// The current session. If there is none, it opens the next, or waits for the caller that does.
    /// `ETIMEDOUT` after `deadline`, `EIO` if the client is closed.
    pub(crate) async fn session_for(&self, deadline: Option<u64>) -> Result<Arc<Session>, Errno> {
        loop {
            let need = self.within(deadline, self.sessions.need(Asker::Call)).await;
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
        loop {
            let route = Route::Shard(ShardIndex(0));
            let op = if self.transport.is_local() { Op::OpenLocalSession } else { Op::OpenSession };
            let pending = self.pending(SYSTEM, (&op).into(), route, self.reading());
            let id = match self.chase(&pending, &mut false).await.map_err(NotOpened::Unanswered)? {
                Answer::Final(Ok(Body::Session(id))) => id,
                Answer::Final(Err(failure)) => return Err(NotOpened::Refused(failure.into())),
                _ => return Err(NotOpened::Refused(Errno::EIO)),
            };
            let session = Session::new(id, self.options.slots, self.epoch());
            // Shard 0 knows that a session that has just begun holds nothing.
            self.hold.epoch.store(self.epoch().0, Ordering::Relaxed);
            lead.prepare(&session);
            if !is_planted!(OpensNotClaimed) {
                self.claim_opens(&session).await;
            }
            if lead.install() {
                self.counters.session_begun();
                self.locks.session_begun(session.id);
                return Ok(());
            }
            // The new session is over, too.
        }
    }

    /// Opens all open files in `session`.
    async fn claim_opens(&self, session: &Arc<Session>) {
        let open = self.nodes.open_files();
        let claims = stream::iter(open);
        claims.for_each_concurrent(CLAIMS_MAX, |file| self.claim(session, file)).await;
    }

    /// Opens `file` in `session`. If it was closed meanwhile, releases it again.
    async fn claim(&self, session: &Arc<Session>, file: FileRef) {
        let open = |file| Op::Open { file, access: 0, truncate: false, kill: None };
        if self.on_file(Via::In(session), SYSTEM, &file, open).await.is_err() {
            return;
        }
        // No caller waits for the result of a release.
        let _ = if self.nodes.held(file.ino, session.id) {
            self.let_go(&file).await
        } else {
            self.release_in(session, &file).await
        };
    }

    /// Makes sure that `ino` counts as open in the current session, after it was opened in one that
    /// is over.
    pub(crate) async fn hold(&self, ino: Ino) {
        loop {
            let Ok(file) = self.file(ino, Errno::EISDIR) else { return };
            let open = |file| Op::Open { file, access: 0, truncate: false, kill: None };
            let opened = self.on_file_told(Via::Current, SYSTEM, &file, open, None).await;
            let Ok((_, session)) = opened else { return };
            if self.counts(&file, session).await {
                return;
            }
        }
    }

    /// Notes that a shard counts one more open of a file in `session`, and takes it back if the
    /// file is not open here. False: the session is over.
    pub(crate) async fn counts(&self, file: &FileRef, session: SessionId) -> bool {
        let is_known = {
            let state = self.sessions.state();
            state.is_live(session).then(|| self.nodes.held(file.ino, session))
        };
        // No caller waits for the result of a release.
        let _ = match (is_known, self.sessions.find(session)) {
            (Some(true), _) => self.let_go(file).await,
            (Some(false), Some(session)) => self.release_in(&session, file).await,
            (Some(false), None) => Ok(()),
            (None, _) => return false,
        };
        true
    }

    /// Releases opens that the shards count and that are not open here.
    pub(crate) async fn let_go(&self, file: &FileRef) -> Result<(), Errno> {
        self.let_go_in(file, self.nodes.take_excess(file.ino)).await
    }

    /// Releases opens in excess: first one in session `excess`, if any, then all others.
    pub(crate) async fn let_go_in(
        &self,
        file: &FileRef,
        mut excess: Option<SessionId>,
    ) -> Result<(), Errno> {
        while let Some(session) = excess.and_then(|id| self.sessions.find(id)) {
            self.release_in(&session, file).await?;
            excess = self.nodes.take_excess(file.ino);
        }
        Ok(())
    }

    /// Releases one open in `session`. If the session is over, there is nothing to do.
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
