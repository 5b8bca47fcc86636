//! Listings of directories.
//!
//! A page of the client rarely fits the kernel's buffer exactly: what is left of it stays in the
//! handle for the next request. Positions are the client's, so that a listing may also go on from
//! any of them without what is kept.
//!
//! The kernel asks for 4 KiB at least. What of it does not fit a program's smaller buffer it
//! forgets, and goes back to where that ended: so the last entries delivered are kept, too.
//!
//! The first request of a listing that has something to deliver ends with that page, so that a
//! program sees the first names after one page, and no other was asked for. Later ones fill the
//! kernel's buffer: the pages for it are under way, and a request costs more than the wait.
//!
//! Attributes are not kept from one request to the next, nor fetched ahead: the kernel takes those
//! that come with a listing for newer than the request, and they would undo what a write has told
//! it since.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pando_client::DirEntry;
use pando_types::{Attr, Credentials, Errno, FileKind, Ino};

use super::Vfs;
use crate::namespace::Pages;

/// Entries with attributes asked for at once. Few, since what does not fit the kernel's buffer,
/// often 32 KiB or some 200 of them, was asked for in vain.
const PAGE_PLUS: u32 = 64;
/// Entries kept after they were delivered: as many as fit 4 KiB, 32 bytes each at least.
const DELIVERED_MAX: usize = 128;
/// Position after ".".
const SELF: u64 = 1;
/// Position after "..".
const PARENT: u64 = 2;

/// An open directory. It keeps a page at most, a few entries that were delivered, and what the
/// listing has fetched ahead ([`pando_client::BUFFERED_MAX`]).
pub struct DirHandle {
    ino: Ino,
    /// On whose behalf it is listed.
    by: Credentials,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where the listing stands: what comes next is in `page`, then in `pages`.
    position: u64,
    /// The last entries delivered, and the position before them.
    delivered: (u64, VecDeque<DirEntry>),
    /// Entries not yet delivered.
    page: VecDeque<DirEntry>,
    /// What comes after them, once it was begun.
    pages: Option<Box<dyn Pages>>,
    /// There is nothing after `page`.
    at_end: bool,
    /// A request has delivered entries.
    is_begun: bool,
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

impl State {
    fn at(position: u64) -> Self {
        Self { position, delivered: (position, VecDeque::new()), ..Self::default() }
    }

    /// The first entry of the page was delivered.
    fn deliver(&mut self) {
        let Some(entry) = self.page.pop_front() else { return };
        self.position = entry.position;
        let (before, delivered) = &mut self.delivered;
        if delivered.len() == DELIVERED_MAX
            && let Some(oldest) = delivered.pop_front()
        {
            *before = oldest.position;
        }
        delivered.push_back(entry);
    }

    /// Goes to `position`; false if that is not where it stands, nor among what was delivered last.
    fn seek(&mut self, position: u64) -> bool {
        let (before, delivered) = &mut self.delivered;
        // From the beginning, everything is to be as it is now.
        if self.position != position && position < PARENT {
            return false;
        }
        while self.position != position {
            let Some(entry) = delivered.pop_back() else { return false };
            self.position = delivered.back().map_or(*before, |entry| entry.position);
            self.page.push_front(entry);
        }
        true
    }
}

impl DirHandle {
    /// Of this directory, at its beginning.
    pub(crate) fn new(ino: Ino, by: Credentials) -> Self {
        Self { ino, by, state: Mutex::default() }
    }

    /// Which directory is listed.
    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vfs {
    /// Opens a directory for listing.
    pub async fn opendir(&self, by: &Credentials, ino: Ino) -> Result<DirHandle, Errno> {
        self.namespace.opendir(by, ino).await?;
        // Whether the directory may be read was asked now, as Linux does.
        let is_theirs = self.namespace.asks_as_openers();
        Ok(DirHandle::new(ino, if is_theirs { by.clone() } else { Credentials::ROOT }))
    }

    /// Delivers entries after `position` until `add` says that there is no room for one. With
    /// `plus` each one delivered with attributes counts as looked up.
    pub async fn list(
        &self,
        handle: &DirHandle,
        position: u64,
        plus: bool,
        add: impl FnMut(Listed<'_>) -> bool + Send,
    ) -> Result<(), Errno> {
        if plus {
            return self.list_plus(handle, position, add).await;
        }
        // Taken for as long as the listing waits. Whoever lists the same handle meanwhile does so
        // from its own position.
        let mut state = std::mem::take(&mut *handle.lock());
        if !state.seek(position) {
            state = State::at(position);
        }
        let result = self.list_on(handle, &mut state, add).await;
        state.is_begun |= state.position > PARENT;
        std::mem::swap(&mut *handle.lock(), &mut state);
        result
    }

    async fn list_on(
        &self,
        handle: &DirHandle,
        state: &mut State,
        mut add: impl FnMut(Listed<'_>) -> bool + Send,
    ) -> Result<(), Errno> {
        if self.dots(handle.ino, &mut state.position, &mut add).await {
            return Ok(());
        }
        state.delivered.0 = state.delivered.0.max(PARENT);
        let (mut delivered, is_first) = (false, !state.is_begun);
        loop {
            while let Some(entry) = state.page.front() {
                if add(listed(entry)) {
                    return Ok(());
                }
                state.deliver();
                delivered = true;
            }
            if state.at_end {
                return Ok(());
            }
            if delivered && is_first {
                return Ok(());
            }
            match self.next_page(handle, state).await {
                Ok(page) => {
                    state.at_end = page.is_empty();
                    state.page = page.into();
                }
                // Whoever comes for the rest hears of it.
                Err(_) if delivered => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// "." and "..", unless `position` is behind them; true if there was no room.
    async fn dots(
        &self,
        ino: Ino,
        position: &mut u64,
        add: &mut (impl FnMut(Listed<'_>) -> bool + Send),
    ) -> bool {
        let kind = FileKind::Directory;
        let dots: [(u64, &[u8]); 2] = [(SELF, b"."), (PARENT, b"..")];
        for (after, name) in dots {
            if *position >= after {
                continue;
            }
            let ino = match after {
                SELF => ino,
                // Linux itself knows where ".." leads; the number is for show.
                _ => self.namespace.parent(ino).await.unwrap_or(ino),
            };
            if add(Listed { position: after, name, ino, kind, attr: None }) {
                return true;
            }
            *position = after;
        }
        false
    }

    async fn next_page(
        &self,
        handle: &DirHandle,
        state: &mut State,
    ) -> Result<Vec<DirEntry>, Errno> {
        let pages = match &mut state.pages {
            Some(pages) => pages,
            None => {
                let namespace = Arc::clone(&self.namespace);
                let pages = namespace.listing(&handle.by, handle.ino, from(state.position))?;
                state.pages.insert(pages)
            }
        };
        pages.next().await
    }

    async fn list_plus(
        &self,
        handle: &DirHandle,
        mut position: u64,
        mut add: impl FnMut(Listed<'_>) -> bool + Send,
    ) -> Result<(), Errno> {
        if self.dots(handle.ino, &mut position, &mut add).await {
            return Ok(());
        }
        let (mut delivered, is_first) = (false, position <= PARENT);
        loop {
            if delivered && is_first {
                return Ok(());
            }
            let page = match self.page_plus(handle, position).await {
                Ok(page) if page.is_empty() => return Ok(()),
                Ok(page) => page,
                Err(_) if delivered => return Ok(()),
                Err(errno) => return Err(errno),
            };
            for (index, entry) in page.iter().enumerate() {
                if add(listed(entry)) {
                    self.give_back(&page[index..]);
                    return Ok(());
                }
                position = entry.position;
                delivered = true;
            }
        }
    }

    /// Entries after `position` with attributes, each counted as looked up.
    async fn page_plus(&self, handle: &DirHandle, position: u64) -> Result<Vec<DirEntry>, Errno> {
        let (by, ino) = (&handle.by, handle.ino);
        let mut position = from(position);
        loop {
            let page = self.namespace.readdir(by, ino, position, PAGE_PLUS, true).await?;
            let Some(last) = page.last() else { return Ok(page) };
            position = last.position;
            let mut complete: Vec<DirEntry> = Vec::with_capacity(page.len());
            let mut failure = None;
            for mut entry in page {
                match self.with_attr(handle, &mut entry, failure).await {
                    Ok(()) => complete.push(entry),
                    // It may list, and not search.
                    Err(Errno::EACCES) if failure.is_none() => complete.push(entry),
                    Err(Errno::ENOENT) => {}
                    Err(errno) => failure = Some(errno),
                }
            }
            match failure {
                Some(errno) if complete.is_empty() => return Err(errno),
                // All of it is gone meanwhile, and that is not the end.
                None if complete.is_empty() => {}
                _ => return Ok(complete),
            }
        }
    }

    /// Completes an entry's attributes; if that fails (or `failed` before), the entry is not to be
    /// delivered.
    async fn with_attr(
        &self,
        dir: &DirHandle,
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
                let attr = self.namespace.lookup(&dir.by, dir.ino, &entry.name).await?;
                (entry.ino, entry.kind) = (attr.ino, attr.kind);
                entry.attr = Some(attr);
            }
        }
        Ok(())
    }

    /// Closes a directory. What was fetched ahead is dropped, and what is under way given up.
    pub fn releasedir(&self, handle: &DirHandle) {
        drop(std::mem::take(&mut *handle.lock()));
    }

    /// Gives back the lookups of entries that are not delivered.
    fn give_back(&self, entries: &[DirEntry]) {
        for entry in entries {
            if entry.attr.is_some() {
                self.namespace.forget(entry.ino, 1);
            }
        }
    }
}

/// "." and ".." are ours; the client's positions begin after them.
const fn from(position: u64) -> u64 {
    if position <= PARENT { 0 } else { position }
}

fn listed(entry: &DirEntry) -> Listed<'_> {
    Listed {
        position: entry.position,
        name: entry.name.as_bytes(),
        ino: entry.ino,
        kind: entry.kind,
        attr: entry.attr.as_ref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::Name;

    fn state(positions: std::ops::RangeInclusive<u64>) -> State {
        let entry = |position: u64| {
            let name = Name::new(position.to_string().as_bytes()).expect("a name");
            DirEntry { position, name, ino: Ino(position), kind: FileKind::Regular, attr: None }
        };
        State { page: positions.map(entry).collect(), ..State::at(PARENT) }
    }

    fn left(state: &State) -> Vec<u64> {
        state.page.iter().map(|entry| entry.position).collect()
    }

    #[test]
    fn a_listing_goes_back_to_what_was_delivered_last_and_no_further() {
        let mut state = state(3..=9);
        (0..4).for_each(|_| state.deliver());
        assert!(state.seek(6) && left(&state) == [7, 8, 9], "where it stands");
        assert!(state.seek(4) && left(&state) == [5, 6, 7, 8, 9]);
        state.deliver();
        assert!(state.seek(PARENT) && left(&state) == [3, 4, 5, 6, 7, 8, 9]);
        assert!(!state.seek(0), "the beginning is read anew");
        assert!(!state.seek(7), "ahead of it");
    }

    #[test]
    fn no_more_than_the_last_are_kept() {
        let last = 10 + DELIVERED_MAX as u64;
        let mut state = state(3..=last);
        (3..=last).for_each(|_| state.deliver());
        assert_eq!(state.delivered.1.len(), DELIVERED_MAX);
        assert!(!state.seek(PARENT));
        let mut state = self::state(3..=last);
        (3..=last).for_each(|_| state.deliver());
        assert!(state.seek(last - DELIVERED_MAX as u64));
        assert_eq!(state.page.len(), DELIVERED_MAX);
    }
}
