//! Files that are opened without telling their shards, and how shards are told
//! (docs/design/holds.md, "Opens that do not travel").

use std::future::poll_fn;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pando_types::op::{AccessMask, FileAt, FileRef, Op};
use pando_types::{Attr, Credentials, DirRef, Errno, Name};

use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::nodes::untold::{Changing, Telling, Told};
use crate::request::outcome::Failure;
use crate::request::pending::Via;
use crate::route::plan::Route;
use crate::upkeep::hold::TELL_WITHIN;

/// How long an open stays untold, nanoseconds. It is told at the next look.
const TELL_AFTER: u64 = 500_000_000;
/// How often that is looked at, nanoseconds.
const LOOK_EVERY: u64 = 500_000_000;

impl Client {
    /// Opens a file without telling its shard. `None`: the shard has to be asked.
    pub(crate) async fn open_untold(
        &self,
        credentials: &Credentials,
        file: &FileRef,
        access: AccessMask,
    ) -> Option<Attr> {
        let FileAt::Name(dir, name) = &file.at else { return None };
        // Most of those that are not known are so found without a note.
        self.transport.may_open(file, access, credentials)?;
        if !self.note_untold((*dir, name), file) {
            return None;
        }
        // Again after the note, so that whoever ends the hold finds it. A change in doubt may not
        // have reached the memory.
        let may = || self.transport.may_open(file, access, credentials);
        match (self.doubts.count() == 0).then(may).flatten() {
            Some(attr) => {
                self.counters.opened_untold();
                self.openers.opened(file.ino, credentials, access);
                Some(attr)
            }
            None => {
                Box::pin(self.undo_open(file)).await;
                None
            }
        }
    }

    fn note_untold(&self, (dir, name): (DirRef, &Name), file: &FileRef) -> bool {
        let now = self.transport.now_nanos();
        // The next session opens anew what is open when this one ends.
        let state = self.sessions.state();
        let session = self.sessions.id();
        state.is_live(session)
            && self.untold.open(&self.nodes, (dir, name, file.ino), (session, now))
    }

    async fn undo_open(&self, file: &FileRef) {
        if let Ok((file, excess, _pinned)) = self.nodes.close(file.ino) {
            self.untold.closed(&self.nodes, &file);
            // No caller waits for the result of a release.
            let _ = self.let_go_in(&file, excess).await;
        }
    }

    /// Tells shards of what is open and lasts, or is to be told. Never ready.
    pub(crate) async fn keep_telling(&self) {
        if !self.transport.remembers() {
            return std::future::pending().await;
        }
        let mut telling = FuturesUnordered::new();
        // By the clock that goes on while the machine sleeps: such a look is no early one.
        let mut since = self.transport.machine_nanos();
        let mut tick = self.transport.sleep(LOOK_EVERY);
        let mut is_stopped = false;
        poll_fn(|context| {
            while !is_stopped {
                while let Poll::Ready(Some(())) = telling.poll_next_unpin(context) {}
                let is_time = tick.as_mut().poll(context).is_ready();
                let now = self.transport.machine_nanos();
                // A stopped transport does not wait.
                is_stopped = is_time && now.saturating_sub(since) < LOOK_EVERY / 2;
                if is_time {
                    (since, tick) = (now, self.transport.sleep(LOOK_EVERY));
                }
                let old = self.transport.now_nanos().saturating_sub(TELL_AFTER);
                let due = self.untold.take_due(context, old, |dir, name| {
                    self.routes.shard(Route::Order(dir, self.secrets.order(name.as_bytes())))
                });
                if due.is_empty() && !is_time {
                    return Poll::Pending;
                }
                telling.extend(due.into_iter().map(|file| self.tell_open(file)));
            }
            Poll::Pending
        })
        .await
    }

    /// Tells shards what is open in directories of which read grants end. Never ready.
    pub(crate) async fn keep_ending_reads(&self) {
        loop {
            let (number, dirs) = self.transport.reads_end().await;
            // A shard that is away keeps no other session waiting for long.
            let until = self.transport.now_nanos().saturating_add(TELL_WITHIN);
            self.within(Some(until), self.untold.told_in(&dirs)).await;
            self.transport.reads_ended(number);
        }
    }

    async fn tell_open(&self, telling: Telling) {
        let file = telling.file();
        let is_known = self.nodes.is_held(file.ino, self.sessions.id());
        let told = match self.nodes.is_open(file.ino) && !is_known {
            true => self.tell(&file).await,
            false => Told::Known,
        };
        let now = self.transport.now_nanos();
        self.untold.told((&self.nodes, self.sessions.id()), &telling, (told, now));
    }

    /// Opens a file once more, as the superuser and without a check.
    async fn tell(&self, file: &FileRef) -> Told {
        let Some(session) = self.sessions.live() else { return Told::NotYet(Errno::EIO) };
        let open = |file| Op::Open { file, access: 0, truncate: false, kill: None };
        // Never given up: a request in doubt would keep its slot, and the next one take another.
        match self.on_file_told(Via::In(&session), SYSTEM, file, open, None).await {
            Ok(_) => {
                self.counters.told_open();
                self.counts(file, session.id).await;
                Told::Known
            }
            // It is lost to those that have it open.
            Err(
                Failure::NotThere | Failure::Errno(Errno::ENOENT | Errno::ESTALE | Errno::EISDIR),
            ) => Told::Lost,
            Err(failure) => Told::NotYet(failure.into()),
        }
    }

    /// Tells shards of files that are open untold by these names. For as long as the result lives,
    /// they are not opened so.
    pub(crate) async fn change(
        &self,
        names: &[(DirRef, &Name)],
    ) -> Result<Option<Changing<'_>>, Errno> {
        if !self.transport.remembers() {
            return Ok(None);
        }
        let changing = self.untold.change(names);
        let told = self.within(self.deadline(Via::Current), changing.told()).await;
        told.ok_or(Errno::ETIMEDOUT)??;
        Ok(Some(changing))
    }
}
