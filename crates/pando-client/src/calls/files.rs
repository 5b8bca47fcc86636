//! Calls by ino: attributes, opens and data of files, and attributes and access of directories.

use pando_types::op::{AccessMask, FileAt, FileRef, Op, Piece};
use pando_types::reply::{Body, Layout};
use pando_types::{Attr, Credentials, Errno, Ino, Kill, SessionId, SetAttr, Timestamp};

use crate::cache::on_path::{At, OnPath};
use crate::client::Client;
use crate::nodes::openers::{READ, SYSTEM, WRITE};
use crate::nodes::table::{Spot, Stamp};
use crate::request::backoff::Backoff;
use crate::request::outcome::{Failure, stale, take};
use crate::request::pending::{Asked, Via};

/// Most places at which a file is looked for, while this client itself moves files.
const PLACES_MAX: u32 = 64;
/// Number of places after which renames wait for the search. Else a program that renames a file
/// over and over could stay ahead of it.
const CHASES_MAX: u32 = 8;

/// What an open does with the content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// It leaves it.
    Kept,
    /// It truncates it.
    Cut,
}

/// Why data was not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// The data version is not the one from which the pieces were made, or the layout is another.
    /// The caller reads again, then writes again.
    DataChanged,
    /// Nothing was changed, and nothing will be. Of `EIO` that is not known.
    Errno(Errno),
    /// The write may have run, or may yet, so its objects may be in use. If it turns out not to
    /// have run, [`Client::unneeded`] yields them.
    Unsure(Errno),
}

impl Client {
    /// Attributes of an inode. Those of a directory add up all its partitions.
    pub async fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        self.by_dentry(None).getattr(ino).await
    }

    /// Changes attributes, and returns the new ones.
    pub async fn setattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Result<Attr, Errno> {
        self.by_dentry(None).setattr(credentials, ino, set).await
    }

    /// `EACCES` unless the caller has all of `mask`.
    pub async fn access(
        &self,
        credentials: &Credentials,
        ino: Ino,
        mask: AccessMask,
    ) -> Result<(), Errno> {
        self.by_dentry(None).access(credentials, ino, mask).await
    }

    pub(crate) async fn dir_access(
        &self,
        credentials: &Credentials,
        at: At<'_>,
        mask: AccessMask,
    ) -> Result<(), Errno> {
        self.run_by(credentials, &Op::DirAccess(at.dir, mask), at.on).await.map_err(stale)?;
        Ok(())
    }

    /// `EACCES` unless the caller may read the directory.
    pub async fn opendir(&self, credentials: &Credentials, ino: Ino) -> Result<(), Errno> {
        self.by_dentry(None).opendir(credentials, ino).await
    }

    /// The target of a symlink.
    pub async fn readlink(&self, credentials: &Credentials, ino: Ino) -> Result<Vec<u8>, Errno> {
        let file = self.file(ino, Errno::EINVAL)?;
        self.readlink_at(credentials, file).await
    }

    pub(crate) async fn readlink_at(
        &self,
        credentials: &Credentials,
        file: FileRef,
    ) -> Result<Vec<u8>, Errno> {
        let body = self.by_ino(credentials, &file, Op::Readlink).await?;
        take!(body, Body::Bytes(target) => target)
    }

    /// Opens a file. It lives until [`Client::release`], even without a name. `kill` names the
    /// set-id bits that a truncation clears; if the shard judges the caller, the shard decides.
    pub async fn open(
        &self,
        credentials: &Credentials,
        ino: Ino,
        access: AccessMask,
        content: Content,
        kill: Option<Kill>,
    ) -> Result<Attr, Errno> {
        let file = self.file(ino, Errno::EISDIR)?;
        self.open_at(credentials, file, access, (content == Content::Cut, kill)).await
    }

    pub(crate) async fn open_at(
        &self,
        credentials: &Credentials,
        file: FileRef,
        access: AccessMask,
        (truncate, kill): (bool, Option<Kill>),
    ) -> Result<Attr, Errno> {
        if !truncate && let Some(attr) = self.open_untold(credentials, &file, access).await {
            return Ok(attr);
        }
        let asked = self.nodes.stamp();
        let op = |file| Op::Open { file, access, truncate, kill };
        let asked_at = op(file.clone());
        let there = Asked { op: &asked_at, on: None };
        let (opened, spot) = match self.run_told(Via::Current, credentials, there).await {
            Err(failure) if is_elsewhere(failure, &file.at) => {
                let there = self.on_file_elsewhere(Via::Current, credentials, &file, op, None);
                // The node table knows where the file was found.
                (Box::pin(there).await, self.nodes.find(file.ino).ok())
            }
            // Keep the place that answered. The table may hold the link shard, from another call
            // that missed the file. A search goes from a name to the link shard, but not back.
            opened => (opened, None),
        };
        let spot = spot.unwrap_or(Spot::File(file.at));
        let (body, session) = opened.map_err(|failure| stale(failure.into()))?;
        let attr = take!(body, Body::Attr(attr) => attr)?;
        self.opened(file.ino, spot, asked, session, 0).await;
        self.openers.opened(file.ino, credentials, if truncate { access | WRITE } else { access });
        Ok(attr)
    }

    /// Notes that `ino` was opened in `session`, and looked up `lookups` times.
    pub(crate) async fn opened(
        &self,
        ino: Ino,
        spot: Spot,
        asked: Stamp,
        session: SessionId,
        lookups: u64,
    ) {
        let counts = {
            let state = self.sessions.state();
            let counts = state.is_live(session);
            self.nodes.open(ino, spot, asked, counts.then_some(session), lookups);
            counts
        };
        if !counts {
            Box::pin(self.hold(ino)).await;
        }
    }

    /// Releases one open. The request is repeated until it is answered, whatever
    /// [`Options::patience`](crate::Options::patience) says. A lost release would keep an orphan
    /// for as long as the session lives.
    pub async fn release(&self, ino: Ino) -> Result<(), Errno> {
        let (file, excess, _pinned) = self.nodes.close(ino)?;
        self.untold.closed(&self.nodes, &file);
        self.openers.closed(ino);
        self.let_go_in(&file, excess).await
    }

    /// The slices that hold the bytes `offset .. offset + len`.
    pub async fn read_data(&self, ino: Ino, offset: u64, len: u64) -> Result<Layout, Errno> {
        let file = self.file(ino, Errno::EISDIR)?;
        let end = offset.saturating_add(len);
        let mut layout = self.read_some(&file, offset, len).await?;
        // Few files have more slices than one answer holds.
        while layout.until < end.min(layout.attr.size) {
            let (from, file) = (layout.until, self.file(ino, Errno::EISDIR)?);
            let more = Box::pin(self.read_some(&file, from, end - from)).await?;
            if more.attr.data_version == layout.attr.data_version {
                if more.until <= from {
                    return Err(Errno::EIO);
                }
                layout.slices.extend(more.slices);
                layout.until = more.until;
            } else {
                layout = Box::pin(self.read_some(&file, offset, len)).await?;
            }
        }
        Ok(layout)
    }

    async fn read_some(&self, file: &FileRef, offset: u64, len: u64) -> Result<Layout, Errno> {
        let op = |file| Op::ReadData { file, offset, len };
        let body = match self.openers.of(file.ino, READ) {
            None => self.by_ino(SYSTEM, file, op).await,
            Some(openers) => {
                let asked = Box::pin(self.by_any(&openers, Via::Current, file, op)).await;
                asked.map_err(|failure| stale(failure.into()))
            }
        };
        take!(body?, Body::Layout(layout) => layout)
    }

    /// Runs an operation on a file, wherever that is, with the first of these credentials that the
    /// shard accepts.
    pub(crate) async fn by_any(
        &self,
        openers: &[Credentials],
        via: Via<'_>,
        file: &FileRef,
        op: impl Fn(FileRef) -> Op,
    ) -> Result<Body, Failure> {
        let mut refused = Failure::Errno(Errno::EACCES);
        for by in openers {
            match self.on_file(via, by, file, &op).await {
                Err(failure @ Failure::Errno(Errno::EACCES | Errno::EPERM)) => refused = failure,
                answer => return answer,
            }
        }
        Err(refused)
    }

    /// Changes attributes of a file through a descriptor that is open for writing.
    pub async fn setattr_open(&self, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        let Some(openers) = self.openers.of(ino, WRITE) else {
            return self.setattr(SYSTEM, ino, set).await;
        };
        let mut refused = Errno::EACCES;
        for by in &openers {
            match self.setattr(by, ino, set.clone()).await {
                Err(errno @ (Errno::EACCES | Errno::EPERM)) => refused = errno,
                answer => return answer,
            }
        }
        Err(refused)
    }

    /// Lays `pieces` over the data, as [`Op::WriteData`] says.
    pub async fn write_data(
        &self,
        ino: Ino,
        base: Option<u64>,
        pieces: Vec<Piece>,
        mtime: Option<Timestamp>,
        kill: Option<Kill>,
    ) -> Result<Attr, WriteError> {
        let file = self.file(ino, Errno::EISDIR).map_err(WriteError::Errno)?;
        let op = |file| Op::WriteData { file, base, pieces: pieces.clone(), mtime, kill };
        let openers = self.openers.of(ino, WRITE);
        let written = match (self.locks.session_of(ino), &openers) {
            (None, None) => self.on_file(Via::Current, SYSTEM, &file, op).await,
            (None, Some(openers)) => Box::pin(self.by_any(openers, Via::Current, &file, op)).await,
            // A write under a lock must not run once that lock is lost.
            (Some(session), openers) => {
                let openers = openers.as_deref().unwrap_or(std::slice::from_ref(SYSTEM));
                let writing = self.by_any(openers, Via::In(&session), &file, op);
                let written = Box::pin(self.within(self.deadline(Via::Current), writing)).await;
                written.unwrap_or(Err(Failure::Unsure(Errno::ETIMEDOUT)))
            }
        };
        match written {
            Err(Failure::Over) => Err(WriteError::Errno(Errno::ESTALE)),
            Ok(Body::Attr(attr)) => Ok(attr),
            Ok(_) => Err(WriteError::Unsure(Errno::EIO)),
            Err(Failure::DataChanged) => Err(WriteError::DataChanged),
            Err(Failure::Unsure(errno)) => Err(WriteError::Unsure(errno)),
            Err(failure) => Err(WriteError::Errno(stale(failure.into()))),
        }
    }

    /// Waits until no request in doubt changes the file. The caller writes nothing to it before.
    pub async fn settled(&self, ino: Ino) -> Result<(), Errno> {
        if self.doubts.count() == 0 {
            return Ok(());
        }
        let file = self.file(ino, Errno::EISDIR)?;
        let op = Op::WriteData { file, base: None, pieces: Vec::new(), mtime: None, kill: None };
        let clear = self.doubts.clear_of(&op);
        self.within(self.deadline(Via::Current), clear).await.ok_or(Errno::ETIMEDOUT)
    }

    /// The file `ino`; `if_dir` if it is a directory.
    pub(crate) fn file(&self, ino: Ino, if_dir: Errno) -> Result<FileRef, Errno> {
        match self.nodes.find(ino)? {
            Spot::File(at) => Ok(FileRef { ino, at }),
            Spot::Dir(_) => Err(if_dir),
        }
    }

    /// Runs an operation on a file, wherever that is. A missing inode is `ESTALE`.
    pub(crate) async fn by_ino(
        &self,
        credentials: &Credentials,
        file: &FileRef,
        op: impl Fn(FileRef) -> Op,
    ) -> Result<Body, Errno> {
        let answer = self.on_file(Via::Current, credentials, file, op).await;
        answer.map_err(|failure| stale(failure.into()))
    }

    /// Runs an operation on a file after a first request for it has failed with `failure`: at every
    /// other place where the file may be, if it was not where it was asked for. A missing inode is
    /// `ESTALE`.
    pub(crate) async fn by_ino_after(
        &self,
        failure: Failure,
        file: FileRef,
        op: impl Fn(FileRef) -> Op,
    ) -> Result<Body, Errno> {
        if !is_elsewhere(failure, &file.at) {
            return Err(stale(failure.into()));
        }
        let answer = self.on_file_elsewhere(Via::Current, SYSTEM, &file, op, None).await;
        answer.map(|(body, _)| body).map_err(|failure| stale(failure.into()))
    }

    /// Runs an operation on a file wherever that is. It asks under the file's name, then at its
    /// link shard. Then it asks where this client has moved the file meanwhile, or had seen it
    /// before its own move was answered.
    pub(crate) async fn on_file(
        &self,
        via: Via<'_>,
        credentials: &Credentials,
        file: &FileRef,
        op: impl Fn(FileRef) -> Op,
    ) -> Result<Body, Failure> {
        self.on_file_told(via, credentials, file, op, None).await.map(|(body, _)| body)
    }

    /// Runs an operation on a file, wherever that is, by a trail if there is one. Returns also the
    /// session in which it ran.
    pub(crate) async fn on_file_told(
        &self,
        via: Via<'_>,
        credentials: &Credentials,
        file: &FileRef,
        op: impl Fn(FileRef) -> Op,
        on: Option<&OnPath>,
    ) -> Result<(Body, SessionId), Failure> {
        let asked = Asked { op: &op(file.clone()), on };
        match self.run_told(via, credentials, asked).await {
            Err(failure) if is_elsewhere(failure, &file.at) => {}
            answer => return answer,
        }
        Box::pin(self.on_file_elsewhere(via, credentials, file, op, on)).await
    }

    /// Runs an operation on a file that was not at `file.at`. Returns also the session in which it
    /// ran.
    async fn on_file_elsewhere(
        &self,
        via: Via<'_>,
        credentials: &Credentials,
        file: &FileRef,
        op: impl Fn(FileRef) -> Op,
        on: Option<&OnPath>,
    ) -> Result<(Body, SessionId), Failure> {
        let deadline = self.deadline(via);
        // Before a session has begun, renames wait for this search. So it must be short.
        let places_max = match via {
            Via::In(session) if !self.sessions.state().is_live(session.id) => CHASES_MAX,
            _ => PLACES_MAX,
        };
        let ino = file.ino;
        let mut at = file.at.clone();
        let mut name = FileAt::Link;
        let mut backoff = Backoff::astray();
        let mut hold = None;
        let mut failure = Failure::NotThere;
        for places in 1..places_max {
            self.nodes.not_at(ino, &at);
            if at != FileAt::Link {
                name = at.clone();
            }
            if places > CHASES_MAX {
                hold.get_or_insert_with(|| self.renames.hold());
            }
            // Before the table is read: a rename that has ended has updated it.
            let is_moving = self.renames.concern(&name) || self.doubts.may_move(&name);
            match self.nodes.find(ino) {
                Ok(Spot::File(next)) if next != at => at = next,
                Err(_) if at != FileAt::Link => at = FileAt::Link,
                _ if is_moving && self.is_past(deadline) => {
                    return Err(Failure::Errno(Errno::ETIMEDOUT));
                }
                _ if is_moving => backoff.pause(self).await,
                _ => match self.nodes.take_before(ino) {
                    Some(before) => at = before,
                    None => return Err(failure),
                },
            }
            let stamp = self.nodes.stamp();
            let asked = Asked { op: &op(FileRef { ino, at: at.clone() }), on };
            match self.run_told(via, credentials, asked).await {
                Err(now) if is_elsewhere(now, &at) => failure = now,
                answer => {
                    if answer.is_ok() {
                        self.nodes.found_at(ino, at, stamp);
                    }
                    return answer;
                }
            }
        }
        Err(failure)
    }
}

/// Whether a file that was not found at `at` may be elsewhere.
fn is_elsewhere(failure: Failure, at: &FileAt) -> bool {
    // The answer of a link shard for an inode without names.
    failure == Failure::NotThere
        || (failure == Failure::Errno(Errno::ENOENT) && *at == FileAt::Link)
}
