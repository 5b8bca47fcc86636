//! Listings of directories.
//!
//! A page of the client rarely fits the kernel's buffer exactly: what is left of it stays in the handle for the next
//! request. Positions are the client's, so that a listing may also go on from any of them without what is kept.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_client::DirEntry;
use pando_types::{Attr, Credentials, Errno, FileKind, Ino};

use super::Vfs;

/// Entries asked for at once.
const PAGE: u32 = 1024;
/// The same with attributes.
const PAGE_PLUS: u32 = 256;
/// Position after ".".
const SELF: u64 = 1;
/// Position after "..".
const PARENT: u64 = 2;

/// An open directory.
pub struct DirHandle {
    ino: Ino,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where the listing stands: what comes next is in `ahead`, or after it.
    position: u64,
    /// Entries fetched and not yet delivered.
    ahead: VecDeque<DirEntry>,
    /// They have attributes, and count as looked up.
    plus: bool,
    /// There is nothing after `ahead`.
    at_end: bool,
}

/// An entry as it is delivered.
#[derive(Debug)]
pub struct Listed<'a> {
    /// Where a listing goes on after it.
    pub position: u64,
    /// Its name.
    pub name: &'a [u8],
    /// What it leads to.
    pub ino: Ino,
    /// What that is.
    pub kind: FileKind,
    /// Attributes, in a listing with attributes; never of "." and "..".
    pub attr: Option<&'a Attr>,
}

impl DirHandle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vfs {
    /// Opens a directory for listing.
    pub async fn opendir(&self, by: &Credentials, ino: Ino) -> Result<DirHandle, Errno> {
        self.namespace.opendir(by, ino).await?;
        Ok(DirHandle { ino, state: Mutex::default() })
    }

    /// Delivers entries after `position` until `add` says that there is no room for one. With `plus` each one delivered
    /// with attributes counts as looked up.
    pub async fn list(
        &self,
        handle: &DirHandle,
        position: u64,
        plus: bool,
        add: impl FnMut(Listed<'_>) -> bool + Send,
    ) -> Result<(), Errno> {
        // Taken for as long as the listing waits. Whoever lists the same handle meanwhile does so from its own position.
        let mut state = std::mem::take(&mut *handle.lock());
        if state.position != position || state.plus != plus {
            self.drop_ahead(&mut state);
            state = State { position, plus, ..State::default() };
        }
        let result = self.list_on(handle, &mut state, position, add).await;
        std::mem::swap(&mut *handle.lock(), &mut state);
        self.drop_ahead(&mut state);
        result
    }

    async fn list_on(
        &self,
        handle: &DirHandle,
        state: &mut State,
        position: u64,
        mut add: impl FnMut(Listed<'_>) -> bool + Send,
    ) -> Result<(), Errno> {
        let kind = FileKind::Directory;
        let dots: [(u64, &[u8]); 2] = [(SELF, b"."), (PARENT, b"..")];
        for (position, name) in dots {
            if state.position >= position {
                continue;
            }
            let ino = match position {
                SELF => handle.ino,
                // Linux itself knows where ".." leads; the number is for show.
                _ => self.namespace.parent(handle.ino).await.unwrap_or(handle.ino),
            };
            if add(Listed { position, name, ino, kind, attr: None }) {
                return Ok(());
            }
            state.position = position;
        }
        let mut delivered = state.position != position;
        loop {
            while let Some(entry) = state.ahead.front() {
                let listed = Listed {
                    position: entry.position,
                    name: entry.name.as_bytes(),
                    ino: entry.ino,
                    kind: entry.kind,
                    attr: entry.attr.as_ref(),
                };
                if add(listed) {
                    return Ok(());
                }
                state.position = entry.position;
                state.ahead.pop_front();
                delivered = true;
            }
            if state.at_end {
                return Ok(());
            }
            match self.next_page(handle.ino, state).await {
                Ok(page) => {
                    state.at_end = page.is_empty();
                    state.ahead = page.into();
                }
                // Whoever comes for the rest hears of it.
                Err(_) if delivered => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    async fn next_page(&self, ino: Ino, state: &State) -> Result<Vec<DirEntry>, Errno> {
        // "." and ".." are ours; the client's positions begin after them.
        let from = if state.position <= PARENT { 0 } else { state.position };
        let limit = if state.plus { PAGE_PLUS } else { PAGE };
        // Whether the directory may be read was asked when it was opened, as Linux does.
        let page = self.namespace.readdir(&Credentials::ROOT, ino, from, limit, state.plus).await?;
        if !state.plus {
            return Ok(page);
        }
        let mut complete: Vec<DirEntry> = Vec::with_capacity(page.len());
        let mut failure = None;
        for mut entry in page {
            match self.with_attr(ino, &mut entry, failure).await {
                Ok(()) => complete.push(entry),
                Err(Errno::ENOENT) => {}
                Err(errno) => failure = Some(errno),
            }
        }
        match failure {
            Some(errno) if complete.is_empty() => Err(errno),
            _ => Ok(complete),
        }
    }

    /// Completes an entry's attributes; if that fails (or `failed` before), the entry is not to be delivered.
    async fn with_attr(
        &self,
        dir: Ino,
        entry: &mut DirEntry,
        failed: Option<Errno>,
    ) -> Result<(), Errno> {
        if let Some(errno) = failed {
            if entry.attr.is_some() {
                self.namespace.forget(entry.ino, 1);
            }
            return Err(errno);
        }
        match &mut entry.attr {
            // Should that fail, sizes are as the shards know them.
            Some(attr) => drop(self.data.show(attr)),
            None => {
                let attr = self.namespace.lookup(&Credentials::ROOT, dir, &entry.name).await?;
                (entry.ino, entry.kind) = (attr.ino, attr.kind);
                entry.attr = Some(attr);
            }
        }
        Ok(())
    }

    /// Closes a directory.
    pub fn releasedir(&self, handle: &DirHandle) {
        self.drop_ahead(&mut handle.lock());
    }

    /// Gives back the lookups of entries that were never delivered.
    fn drop_ahead(&self, state: &mut State) {
        for entry in state.ahead.drain(..) {
            if entry.attr.is_some() {
                self.namespace.forget(entry.ino, 1);
            }
        }
    }
}
