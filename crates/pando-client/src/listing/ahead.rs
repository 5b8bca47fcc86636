//! Lists a directory from one position to its end, and fetches pages ahead.
//!
//! ```text
//!   orders   0 ─────────────────────────────────────────────────────────► END
//!            taken │ stretch        │ stretch │ stretch │ not cut yet
//!                  │ page page ···→ │ page    │ ···→    │
//! ```
//!
//! The rest of the directory is cut into *stretches*. Each is as wide as the partition there is
//! thought to be, so that several shards can be asked at once. A page that is fetched ahead is a
//! future that is kept. Its first poll sends the request, and the answer waits with the transport.
//! The call that takes the page polls on. That needs no thread and no task; dropping the future
//! gives the page up.
//!
//! Nothing is fetched ahead before the second page is asked for: many callers want only the first
//! names. Then up to twice as many pages with each page taken, [`AHEAD_MAX`] at most. Where pages
//! are ready at once, since the shard runs on the caller's thread, none is fetched ahead: that
//! would only do work too early.
//!
//! Invariants:
//! 1. Stretches adjoin each other, and the last one adjoins what is not cut yet. Every order that
//!    is not taken is in one of these.
//! 2. A stretch has at most one pending request, which begins where its last page ended. Of a page
//!    only the entries within the stretch count. So partitions and their splits decide how many
//!    requests a listing takes, but never what it lists.
//! 3. At most [`AHEAD_MAX`] pages are fetched or pending beyond the one that is waited for. That is
//!    [`BUFFERED_MAX`] entries, whatever the size of the directory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use pando_types::reply::Listed;
use pando_types::{Credentials, DirRef, Errno, Ino, Order};

use crate::client::Client;
use crate::listing::page::{DirEntry, Page, order_after, plain};
use crate::transport::traits::BoxFuture;

/// Entries of the first request; each further one asks for twice as many, up to [`PAGE_MAX`]. It is
/// enough for 4 KiB of names, before which `ls` prints nothing into a pipe.
const PAGE_FIRST: u32 = 512;
/// Most entries in a page.
const PAGE_MAX: u32 = 1024;
/// Most pages fetched ahead.
const AHEAD_MAX: usize = 4;
/// Most stretches. Those of partitions without entries hold no page.
const STRETCHES_MAX: usize = 2 * AHEAD_MAX;
/// Most entries that a [`Listing`] keeps.
pub const BUFFERED_MAX: usize = AHEAD_MAX * PAGE_MAX as usize;

/// A pass over a directory, in the order of positions. It returns each entry that exists throughout
/// exactly once, whatever partitions split meanwhile.
pub struct Listing {
    client: Arc<Client>,
    credentials: Credentials,
    dir: DirRef,
    stretches: VecDeque<Stretch>,
    /// Where the part begins that is in no stretch yet.
    uncut: Order,
    /// Entries in the next page asked for, and the most in any page.
    limit: u32,
    limit_max: u32,
    /// Pages that may be fetched ahead.
    width: usize,
    /// Whether a page was taken.
    is_begun: bool,
}

/// A part of the rest of the directory.
struct Stretch {
    /// The order at which its next request begins.
    from: Order,
    /// Its end, at most [`Order::END`].
    end: u64,
    request: Option<BoxFuture<'static, Result<Page, Errno>>>,
    /// The request did not answer at once.
    has_waited: bool,
    /// Pages answered and not taken, none of them empty.
    pages: VecDeque<Vec<Listed>>,
}

impl Client {
    /// A listing of the directory `ino` that begins after `position`; 0 is the beginning. It sends
    /// nothing yet.
    pub fn listing(
        self: &Arc<Self>,
        credentials: &Credentials,
        ino: Ino,
        position: u64,
    ) -> Result<Listing, Errno> {
        self.listing_in_pages(credentials, ino, position, PAGE_MAX)
    }

    /// Begins a listing at `position`, in pages of at most `limit` entries, which is at least 1.
    /// For tests with small directories.
    pub fn listing_in_pages(
        self: &Arc<Self>,
        credentials: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Result<Listing, Errno> {
        let limit_max = limit.clamp(1, PAGE_MAX);
        Ok(Listing {
            client: Arc::clone(self),
            credentials: credentials.clone(),
            dir: self.nodes.dir(ino)?,
            stretches: VecDeque::new(),
            uncut: order_after(position),
            limit: PAGE_FIRST.min(limit_max),
            limit_max,
            width: 0,
            is_begun: false,
        })
    }
}

impl Listing {
    /// The next entries, at least one; none at the end. After an error the call can be repeated. If
    /// the future is dropped, the next call goes on with the pending requests.
    pub async fn next(&mut self) -> Result<Vec<DirEntry>, Errno> {
        let mut is_own = false;
        let page = poll_fn(|context| self.poll(context, &mut is_own)).await?;
        Ok(page.iter().map(plain).collect())
    }

    /// Number of entries fetched and not taken.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.stretches.iter().flat_map(|stretch| &stretch.pages).map(Vec::len).sum()
    }

    /// `is_own` says that this call began the request it waits for. Then the request's failure is
    /// this call's, too.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        is_own: &mut bool,
    ) -> Poll<Result<Vec<Listed>, Errno>> {
        loop {
            let Some(front) = self.front() else { return Poll::Ready(Ok(Vec::new())) };
            if let Some(page) = front.pages.pop_front() {
                // A page that took waiting comes from another machine or thread.
                let is_far = front.has_waited;
                self.width = if is_far { (self.width * 2).clamp(1, AHEAD_MAX) } else { 0 };
                if std::mem::replace(&mut self.is_begun, true) {
                    self.fetch_ahead(context, self.width);
                }
                return Poll::Ready(Ok(page));
            }
            if front.request.is_none() {
                self.ask(0);
                *is_own = true;
            }
            match self.stretches[0].poll(context) {
                Poll::Ready(Ok(())) => *is_own = false,
                Poll::Ready(Err(errno)) => {
                    self.width = 0;
                    if *is_own {
                        return Poll::Ready(Err(errno));
                    }
                }
                Poll::Pending => {
                    self.fetch_ahead(context, self.width + 1);
                    return Poll::Pending;
                }
            }
        }
    }

    /// The stretch of the next page; `None` at the end.
    fn front(&mut self) -> Option<&mut Stretch> {
        while self.stretches.front().is_some_and(Stretch::is_over) {
            self.stretches.pop_front();
        }
        if self.stretches.is_empty() && !self.cut() {
            return None;
        }
        self.stretches.front_mut()
    }

    /// Cuts one more stretch; false if nothing is left.
    fn cut(&mut self) -> bool {
        let from = self.uncut;
        if from.0 >= Order::END {
            return false;
        }
        let end = self.client.routes.partition_end(self.dir, from);
        self.uncut = Order(end);
        let (request, has_waited, pages) = Default::default();
        self.stretches.push_back(Stretch { from, end, request, has_waited, pages });
        true
    }

    /// Begins the next request of the stretch at `index`, which has none pending.
    fn ask(&mut self, index: usize) {
        let is_last = index + 1 == self.stretches.len();
        let stretch = &mut self.stretches[index];
        if is_last {
            // The client may know more partitions than when it cut this stretch. Nothing behind it
            // was asked for yet.
            stretch.end = stretch.end.min(self.client.routes.partition_end(self.dir, stretch.from));
            self.uncut = Order(stretch.end);
        }
        let (client, by) = (Arc::clone(&self.client), self.credentials.clone());
        let (dir, from, limit) = (self.dir, stretch.from, self.limit);
        self.limit = (limit * 2).min(self.limit_max);
        stretch.has_waited = false;
        stretch.request =
            Some(Box::pin(async move { client.fetch(&by, dir.into(), from, limit).await }));
    }

    /// Goes on with pending requests, and begins more, nearest first, until `most` pages are
    /// fetched or pending.
    fn fetch_ahead(&mut self, context: &mut Context<'_>, most: usize) {
        let mut index = 0;
        while self.width > 0 {
            if index == self.stretches.len() {
                let may_cut = index < STRETCHES_MAX && self.pages() < most;
                if !(may_cut && self.cut()) {
                    return;
                }
            }
            let stretch = &self.stretches[index];
            let is_new = stretch.request.is_none();
            if is_new && (stretch.is_asked() || self.pages() >= most) {
                index += 1;
                continue;
            }
            if is_new {
                self.ask(index);
            }
            match self.stretches[index].poll(context) {
                // The shard runs on this very thread.
                Poll::Ready(Ok(())) if is_new => self.width = 0,
                Poll::Ready(Ok(())) => {}
                // The request is sent again when its page is wanted; that call gets the error.
                Poll::Ready(Err(_)) => self.width = 0,
                Poll::Pending => index += 1,
            }
        }
    }

    /// Number of pages fetched or pending.
    fn pages(&self) -> usize {
        let pages =
            |stretch: &Stretch| stretch.pages.len() + usize::from(stretch.request.is_some());
        self.stretches.iter().map(pages).sum()
    }
}

impl Stretch {
    /// Whether all of it is asked for and answered.
    const fn is_asked(&self) -> bool {
        self.request.is_none() && self.from.0 >= self.end
    }

    /// Whether all of it is taken.
    fn is_over(&self) -> bool {
        self.is_asked() && self.pages.is_empty()
    }

    /// Goes on with the pending request, if there is one.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Errno>> {
        let Some(request) = &mut self.request else { return Poll::Ready(Ok(())) };
        let Poll::Ready(answer) = request.as_mut().poll(context) else {
            self.has_waited = true;
            return Poll::Pending;
        };
        self.request = None;
        let Page { mut entries, next } = answer?;
        self.from = next;
        entries.truncate(entries.partition_point(|entry| entry.order.0 < self.end));
        if !entries.is_empty() {
            self.pages.push_back(entries);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::Waker;

    use super::*;
    use pando_types::reply::Found;
    use pando_types::{FileKind, Name};

    fn page(orders: &[u64], next: u64) -> Page {
        let name = Name::new(b"a").expect("a name");
        let found = Found::Linked(Ino(7), FileKind::Regular);
        let listed =
            |&order: &u64| Listed { order: Order(order), name: name.clone(), found: found.clone() };
        Page { entries: orders.iter().map(listed).collect(), next: Order(next) }
    }

    /// Gives a stretch up to order 100 these answers. Returns the orders of its pages, and whether
    /// it is asked for to its end.
    fn check(answers: Vec<Page>) -> (Vec<Vec<u64>>, bool) {
        let (from, has_waited, pages) = (Order(0), false, VecDeque::new());
        let mut stretch = Stretch { from, end: 100, request: None, has_waited, pages };
        for answer in answers {
            stretch.request = Some(Box::pin(ready(Ok(answer))));
            assert_eq!(stretch.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
        }
        let orders = |page: &Vec<Listed>| page.iter().map(|entry| entry.order.0).collect();
        (stretch.pages.iter().map(orders).collect(), stretch.is_asked())
    }

    /// A partition may be wider than it was thought to be. Its further entries belong to the next
    /// stretch, which asks for them.
    #[test]
    fn a_stretch_takes_of_a_page_what_is_within_it() {
        assert_eq!(check(vec![page(&[1, 99, 100, 120], 150)]), (vec![vec![1, 99]], true));
        assert_eq!(check(vec![page(&[100], 150)]), (vec![], true));
        assert_eq!(
            check(vec![page(&[1, 2], 3), page(&[7], 99)]),
            (vec![vec![1, 2], vec![7]], false)
        );
        assert_eq!(check(vec![page(&[], 50), page(&[60], 100)]), (vec![vec![60]], true));
    }
}
