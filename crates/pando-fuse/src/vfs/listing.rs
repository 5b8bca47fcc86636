//! Listings of directories.
//!
//! 1. A page of the client rarely fits the kernel's buffer exactly. The handle keeps the rest for
//!    the next request. Positions are the client's, so a listing may also go on from any position
//!    without the kept entries.
//! 2. The kernel asks for 4 KiB at least. It forgets what does not fit a program's smaller buffer,
//!    and goes back to that position. So the handle keeps the last delivered entries, too.
//! 3. The first request with entries to deliver ends with the first page. A program then sees the
//!    first names after one page. Later requests fill the kernel's buffer: their pages are being
//!    fetched, and a request costs more than the wait.
//! 4. Attributes are neither kept from one request to the next nor fetched ahead. The kernel takes
//!    attributes of a listing for newer than the request. They would undo what a write has told it
//!    since.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join;
use pando_client::DirEntry;
use pando_types::{Attr, Credentials, Errno, FileKind, Ino};

use crate::vfs::file_system::Vfs;
use crate::vfs::namespace::Pages;

/// Number of entries with attributes asked for at once. It is small, since entries that do not fit
/// the kernel's buffer are wasted. The buffer often has 32 KiB, for some 200 entries.
const PAGE_PLUS: u32 = 64;
/// Number of delivered entries kept: as many as fit 4 KiB, with 32 bytes each at least.
const DELIVERED_MAX: usize = 128;
/// Position after ".".
const SELF: u64 = 1;
/// Position after "..".
const PARENT: u64 = 2;

/// An open directory. It keeps at most one page, a few delivered entries, and what the listing has
/// fetched ahead ([`pando_client::BUFFERED_MAX`]).
pub struct DirHandle {
    ino: Ino,
    /// Credentials that it is listed with.
    credentials: Credentials,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Position of the listing. The next entries are in `page`, then in `pages`.
    position: u64,
    /// The position before the last delivered entries, and these entries.
    delivered: (u64, VecDeque<DirEntry>),
    /// Entries not yet delivered.
    page: VecDeque<DirEntry>,
    /// Source of the entries after `page`, once it was begun.
    pages: Option<Box<dyn Pages>>,
    /// Whether there is nothing after `page`.
    at_end: bool,
    /// Whether a request has delivered entries.
    is_begun: bool,
}

/// An entry as it is delivered.
#[derive(Debug)]
pub struct Listed<'a> {
    /// Position at which a listing goes on after this entry.
    pub position: u64,
    /// Name of the entry.
    pub name: &'a [u8],
    /// Ino that the name leads to.
    pub ino: Ino,
    /// Kind of the node that the name leads to.
    pub kind: FileKind,
    /// Attributes, in a listing with attributes; never of "." and "..".
    pub attr: Option<&'a Attr>,
}

impl State {
    fn at(position: u64) -> Self {
        Self { position, delivered: (position, VecDeque::new()), ..Self::default() }
    }

    /// Notes that the first entry of the page was delivered.
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

    /// Goes to `position`. Returns false if it is neither the present position nor among the last
    /// delivered entries.
    fn seek(&mut self, position: u64) -> bool {
        let (before, delivered) = &mut self.delivered;
        // A listing from the beginning must show the present state.
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
    /// A handle at the beginning of a directory.
    pub(crate) fn new(ino: Ino, credentials: Credentials) -> Self {
        Self { ino, credentials, state: Mutex::default() }
    }

    /// Ino of the directory.
    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vfs {
    /// Has the namespace learn the names of an open directory. The kernel keeps the listing, and
    /// asks for none.
    pub(crate) async fn learn_names(&self, handle: &DirHandle) {
        // Failures are those of the calls that need them.
        let _ = self.namespace.learn_names(&handle.credentials, handle.ino, PAGE_PLUS).await;
    }

    /// Opens a directory for listing.
    pub async fn opendir(&self, credentials: &Credentials, ino: Ino) -> Result<DirHandle, Errno> {
        self.namespace.opendir(credentials, ino).await?;
        // The right to read the directory was checked now, as Linux does.
        let is_theirs = self.namespace.asks_as_openers();
        Ok(DirHandle::new(ino, if is_theirs { credentials.clone() } else { Credentials::ROOT }))
    }

    /// Delivers entries after `position` until `add` returns true: there is no room. With `plus`,
    /// each entry delivered with attributes counts as looked up.
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
        // The state is taken out while the listing waits. A concurrent listing by this handle
        // starts from its own position.
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
        let parent = match state.position < PARENT && state.page.is_empty() && !state.at_end {
            // Both travel, and neither has to wait for the other.
            true => {
                let parent = self.namespace.parent(handle.ino);
                let (parent, page) = join(parent, self.next_page(handle, state)).await;
                let page = page?;
                state.at_end = page.is_empty();
                state.page = page.into();
                parent.ok()
            }
            false => None,
        };
        if self.dots(handle.ino, parent, &mut state.position, &mut add).await {
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
                // The next request reports the error.
                Err(_) if delivered => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Delivers "." and "..", unless `position` is behind them. Returns true if there was no room.
    /// `parent`: where ".." leads, if that is known.
    async fn dots(
        &self,
        ino: Ino,
        parent: Option<Ino>,
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
                // Linux itself knows where ".." leads; the number is only shown.
                _ => match parent {
                    Some(parent) => parent,
                    None => self.namespace.parent(ino).await.unwrap_or(ino),
                },
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
                let pages =
                    namespace.listing(&handle.credentials, handle.ino, from(state.position))?;
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
        if self.dots(handle.ino, None, &mut position, &mut add).await {
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

    /// Entries after `position` with attributes. Each counts as looked up.
    async fn page_plus(&self, handle: &DirHandle, position: u64) -> Result<Vec<DirEntry>, Errno> {
        let (by, ino) = (&handle.credentials, handle.ino);
        let mut position = from(position);
        loop {
            let page = self.namespace.readdir_plus(by, ino, position, PAGE_PLUS).await?;
            let Some(last) = page.last() else { return Ok(page) };
            position = last.position;
            let mut complete: Vec<DirEntry> = Vec::with_capacity(page.len());
            let mut failure = None;
            for mut entry in page {
                match self.with_attr(handle, &mut entry, failure).await {
                    Ok(()) => complete.push(entry),
                    // The caller may list the directory, but not search it.
                    Err(Errno::EACCES) if failure.is_none() => complete.push(entry),
                    Err(Errno::ENOENT) => {}
                    Err(errno) => failure = Some(errno),
                }
            }
            match failure {
                Some(errno) if complete.is_empty() => return Err(errno),
                // All entries of the page are gone meanwhile. This is not the end of the listing.
                None if complete.is_empty() => {}
                _ => return Ok(complete),
            }
        }
    }

    /// Completes an entry's attributes. On an error, or after an earlier one (`failed`), the entry
    /// must not be delivered.
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
            // On an error, sizes are as the shards know them.
            Some(attr) => drop(self.data.show(attr)),
            None => {
                let attr = self.namespace.lookup(&dir.credentials, dir.ino, &entry.name).await?;
                (entry.ino, entry.kind) = (attr.ino, attr.kind);
                entry.attr = Some(attr);
            }
        }
        Ok(())
    }

    /// Drops what a directory's handle has fetched, and gives up pending requests of it.
    pub fn releasedir(&self, handle: &DirHandle) {
        drop(std::mem::take(&mut *handle.lock()));
    }

    /// Takes back the lookups of entries that are not delivered.
    fn give_back(&self, entries: &[DirEntry]) {
        for entry in entries {
            if entry.attr.is_some() {
                self.namespace.forget(entry.ino, 1);
            }
        }
    }
}

/// Converts to a position of the client, which begins after "." and "..".
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
