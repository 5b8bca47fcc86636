//! Closed files, released together: one request to each shard, however many of them it has.

use pando_types::op::{FileAt, FileRef, Op, RELEASES_MAX};
use pando_types::reply::Body;
use pando_types::{Errno, Ino, SessionId, ShardIndex};

use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::request::outcome::{Failure, stale};
use crate::request::pending::Via;
use crate::route::plan::Route;

/// Files thought to be on one shard, opened in one session.
struct Together {
    session: SessionId,
    shard: ShardIndex,
    files: Vec<FileRef>,
}

impl Client {
    /// Releases one open of each file, as [`Client::release`] does. A file that is not where it
    /// was thought to be is released by itself. Returns the last error, after all have been tried.
    pub async fn release_all(&self, inos: &[Ino]) -> Result<(), Errno> {
        let (mut pins, mut all, mut told) = (Vec::new(), Vec::new(), Ok(()));
        for ino in inos {
            self.openers.closed(*ino);
            match self.nodes.close(*ino) {
                Ok((file, Some(session), pin)) => {
                    self.untold.closed(&self.nodes, &file);
                    pins.push(pin);
                    if let Some(file) = self.gather(&mut all, session, file) {
                        told = self.let_go_in(&file, Some(session)).await.and(told);
                    }
                }
                Ok((file, None, _pin)) => self.untold.closed(&self.nodes, &file),
                Err(errno) => told = Err(errno),
            }
        }
        for together in all {
            told = self.release_together(together).await.and(told);
        }
        told
    }

    /// Adds a file to those of its shard. Returns it instead if it is at its link shard: few files
    /// are, and the shard may have to destroy it.
    fn gather(
        &self,
        all: &mut Vec<Together>,
        session: SessionId,
        file: FileRef,
    ) -> Option<FileRef> {
        let FileAt::Name(dir, name) = &file.at else { return Some(file) };
        let order = self.secrets.order(name.as_bytes());
        let shard = self.routes.shard(Route::Order(*dir, order));
        let fits = |it: &&mut Together| {
            (it.session, it.shard) == (session, shard) && it.files.len() < RELEASES_MAX
        };
        match all.iter_mut().find(fits) {
            Some(together) => together.files.push(file),
            None => all.push(Together { session, shard, files: vec![file] }),
        }
        None
    }

    async fn release_together(&self, together: Together) -> Result<(), Errno> {
        let Together { session, shard, files } = together;
        // All opens of a session end with it.
        let Some(session) = self.sessions.find(session) else { return Ok(()) };
        let op = Op::ReleaseAll(shard, files);
        let left = match self.run_told(Via::In(&session), SYSTEM, (&op).into()).await {
            Ok((Body::Left(left), _)) => left,
            Ok(_) => return Err(Errno::EIO),
            Err(Failure::Over) => Vec::new(),
            Err(failure) => return Err(stale(failure.into())),
        };
        let Op::ReleaseAll(_, files) = &op else { return Err(Errno::EIO) };
        let mut told = Ok(());
        for file in left.iter().filter_map(|nth| files.get(*nth as usize)) {
            told = Box::pin(self.release_in(&session, file)).await.and(told);
        }
        // Files that were opened anew meanwhile may be open too often.
        for file in files {
            let excess = self.nodes.take_excess(file.ino);
            if excess.is_some() {
                told = Box::pin(self.let_go_in(file, excess)).await.and(told);
            }
        }
        told
    }
}
