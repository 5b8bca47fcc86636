//! Listing a directory from one position to its end, with pages fetched ahead.
//!
//! ```text
//!   orders   0 ─────────────────────────────────────────────────────────► END
//!            taken │ stretch        │ stretch │ stretch │ not cut yet
//!                  │ page page ···→ │ page    │ ···→    │
//! ```
//!
//! What is left of the directory is cut into *stretches*, each as wide as the partition there is
//! thought to be, so that several shards can be asked at once. A page that is fetched ahead is a
//! future that is kept: polling it once sends the request, the answer waits with the transport, and
//! whoever takes the next page polls on. No thread and no task is needed for it, and dropping it
//! gives it up.
//!
//! Nothing is fetched ahead before the second page is asked for: many who list a directory want to
//! see its first names, or whether there are any. Then up to twice as many with each page that is
//! taken, [`AHEAD_MAX`] at most. Where pages are ready at once, since the shard runs on the
//! caller's thread, none is: it would only be work done too early.
//!
//! Invariants:
//! 1. Stretches adjoin each other, and the last one what is not cut yet. Every order is in one of
//!    them, or taken.
//! 2. A stretch has at most one request under way, from where its last page ended; of a page only
//!    what is within the stretch counts. So how the partitions really are, and what becomes of them
//!    meanwhile, decides how many requests it takes, and never what is listed.
//! 3. At most [`AHEAD_MAX`] pages are fetched or under way beyond the one that is waited for:
//!    [`BUFFERED_MAX`] entries, whatever the size of the directory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use pando_types::reply::Listed;
use pando_types::{Credentials, DirRef, Errno, Ino, Order};

use crate::client::Client;
use crate::listing::{DirEntry, Page, order_after, plain};
use crate::transport::BoxFuture;

/// Entries asked for at first; twice as many with each page, up to [`PAGE_MAX`]. Enough for 4 KiB
/// of names, before which `ls` prints nothing into a pipe.
const PAGE_FIRST: u32 = 512;
/// Most entries in a page.
const PAGE_MAX: u32 = 1024;
/// Most pages fetched ahead.
const AHEAD_MAX: usize = 4;
/// Most stretches: those of partitions without entries hold no page.
const STRETCHES_MAX: usize = 2 * AHEAD_MAX;
/// Most entries that a [`Listing`] keeps.
pub const BUFFERED_MAX: usize = AHEAD_MAX * PAGE_MAX as usize;

/// One pass over a directory, in the order of positions. What existed throughout is returned
/// exactly once, whatever splits meanwhile.
pub struct Listing {
    client: Arc<Client>,
    by: Credentials,
    dir: DirRef,
    stretches: VecDeque<Stretch>,
    /// Where that begins which is in no stretch yet.
    uncut: Order,
    /// Entries in the next page asked for, and in any.
    limit: u32,
    limit_max: u32,
    /// Pages that may be fetched ahead.
    width: usize,
    /// A page was taken.
    is_begun: bool,
}

/// A part of what is left.
struct Stretch {
    /// Where its next request begins.
    from: Order,
    /// Its end; as far as [`Order::END`].
    end: u64,
    request: Option<BoxFuture<'static, Result<Page, Errno>>>,
    /// The request did not answer at once.
    has_waited: bool,
    /// Pages answered and not taken, none of them empty.
    pages: VecDeque<Vec<Listed>>,
}

impl Client {
    /// A listing of the directory `ino` that begins after `position`; 0 is its beginning. Nothing
    /// is asked yet.
    pub fn listing(
        self: &Arc<Self>,
        by: &Credentials,
        ino: Ino,
        position: u64,
    ) -> Result<Listing, Errno> {
        self.listing_in_pages(by, ino, position, PAGE_MAX)
    }

    /// The same in pages of at most `limit` entries, which is at least 1: for tests, so that little
    /// is much.
    pub fn listing_in_pages(
        self: &Arc<Self>,
        by: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
    ) -> Result<Listing, Errno> {
        let limit_max = limit.clamp(1, PAGE_MAX);
        Ok(Listing {
            client: Arc::clone(self),
            by: by.clone(),
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
    /// The next entries, some at least; none at the end. After an error the same may be asked for
    /// again. Who no longer waits loses nothing: the next call goes on with the same requests.
    pub async fn next(&mut self) -> Result<Vec<DirEntry>, Errno> {
        let mut is_own = false;
        let page = poll_fn(|context| self.poll(context, &mut is_own)).await?;
        Ok(page.iter().map(plain).collect())
    }

    /// Entries fetched and not taken.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.stretches.iter().flat_map(|stretch| &stretch.pages).map(Vec::len).sum()
    }

    /// `is_own`: what is waited for was begun by this call, so that its failure is this call's,
    /// too.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        is_own: &mut bool,
    ) -> Poll<Result<Vec<Listed>, Errno>> {
        loop {
            let Some(front) = self.front() else { return Poll::Ready(Ok(Vec::new())) };
            if let Some(page) = front.pages.pop_front() {
                // What had to be waited for comes from afar.
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

    /// The stretch that the next page is from; none at the end.
    fn front(&mut self) -> Option<&mut Stretch> {
        while self.stretches.front().is_some_and(Stretch::is_over) {
            self.stretches.pop_front();
        }
        if self.stretches.is_empty() && !self.cut() {
            return None;
        }
        self.stretches.front_mut()
    }

    /// One stretch more; false if there is nothing left.
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

    /// Begins the next request of the stretch at `index`, which has none under way.
    fn ask(&mut self, index: usize) {
        let is_last = index + 1 == self.stretches.len();
        let stretch = &mut self.stretches[index];
        if is_last {
            // More may be known of the partitions than when it was cut; nothing behind this has
            // been asked yet.
            stretch.end = stretch.end.min(self.client.routes.partition_end(self.dir, stretch.from));
            self.uncut = Order(stretch.end);
        }
        let (client, by) = (Arc::clone(&self.client), self.by.clone());
        let (dir, from, limit) = (self.dir, stretch.from, self.limit);
        self.limit = (limit * 2).min(self.limit_max);
        stretch.has_waited = false;
        stretch.request =
            Some(Box::pin(async move { client.fetch(&by, dir.into(), from, limit).await }));
    }

    /// Goes on with what is under way, and begins more, nearest first, until `most` pages are
    /// fetched or under way.
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
                // It runs on this very thread.
                Poll::Ready(Ok(())) if is_new => self.width = 0,
                Poll::Ready(Ok(())) => {}
                // Asked again when it is waited for; whoever waits then hears why.
                Poll::Ready(Err(_)) => self.width = 0,
                Poll::Pending => index += 1,
            }
        }
    }

    /// Pages fetched or under way.
    fn pages(&self) -> usize {
        let pages =
            |stretch: &Stretch| stretch.pages.len() + usize::from(stretch.request.is_some());
        self.stretches.iter().map(pages).sum()
    }
}

impl Stretch {
    /// All of it is asked for and answered.
    const fn is_asked(&self) -> bool {
        self.request.is_none() && self.from.0 >= self.end
    }

    /// All of it is taken.
    fn is_over(&self) -> bool {
        self.is_asked() && self.pages.is_empty()
    }

    /// Goes on with its request, if one is under way.
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

    /// What a stretch up to 100 has after these answers: the orders of its pages, and whether it is
    /// asked for to its end.
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

    /// A partition may be wider than it was thought to be: what is behind belongs to the next
    /// stretch, which asks for it.
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
