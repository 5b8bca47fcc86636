//! Requests that come by a channel. Where a mount has rings, only FORGET and INTERRUPT do.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::device::rings::way::Way;
use crate::device::session::Session;
use crate::device::threads::reader_pool::Post;
use crate::protocol::channel::BUFFER_SIZE;

/// A reader gives the mount up after this many failures to read in a row. It pauses for
/// `READ_PAUSE` after each.
const READ_FAILURES_MAX: u32 = 100;
const READ_PAUSE: Duration = Duration::from_millis(10);

/// How long a reader polls before it runs postponed work. A busy program sends its next request
/// sooner.
const PUT_OFF_FOR: Duration = Duration::from_micros(20);
/// After this many requests in a row, a reader runs postponed work even if more requests are
/// waiting.
pub(super) const IN_A_ROW_MAX: u32 = 32;

/// Where a mount has rings, what else comes by the channel is read this often at most. FORGETs then
/// come many at a time.
const FORGETS_PAUSE: Duration = Duration::from_millis(1);

impl Session {
    pub(super) fn read_requests(self: &Arc<Self>, post: Post, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            // The allocator takes these zeros from the kernel. Pages that no request reaches are
            // never touched.
            *buffer = vec![0; BUFFER_SIZE];
        }
        let channel = post.role % self.channels.len();
        // The previous holder of the post may have postponed work.
        let Some(mut post) = self.linger(channel, post) else { return };
        let mut failures = 0;
        let mut in_a_row: u32 = 0;
        loop {
            let len = match rustix::io::read(&self.channels[channel], &mut buffer[..]) {
                // The mount was unmounted, or a test that plays the kernel has hung up.
                Ok(0) | Err(Errno::NODEV) => return self.nothing_more(None),
                Ok(len) => len,
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
                Err(errno) if failures == READ_FAILURES_MAX => {
                    return self.nothing_more(Some(errno));
                }
                // Memory may be short. The kernel has answered that request itself.
                Err(_) => {
                    failures += 1;
                    std::thread::sleep(READ_PAUSE);
                    continue;
                }
            };
            failures = 0;
            if self.rings().is_some() {
                post = match self.work_at(post, || self.take(&buffer[..len], Way::Channel(channel)))
                {
                    Some(again) => again,
                    None => return,
                };
                std::thread::sleep(FORGETS_PAUSE);
                continue;
            }
            in_a_row = in_a_row.wrapping_add(1);
            let is_due = in_a_row.is_multiple_of(IN_A_ROW_MAX) && self.fs.has_put_off();
            let held = self.work_at(post, || {
                self.take(&buffer[..len], Way::Channel(channel));
                if is_due {
                    self.fs.catch_up();
                }
            });
            match held.and_then(|post| self.linger(channel, post)) {
                Some(again) => post = again,
                None => return,
            }
        }
    }

    /// Polls for the next request before the thread sleeps. A wake-up from another CPU costs both
    /// sides more than that. Meanwhile the thread runs all postponed work, then yields the CPU.
    /// Returns `None` if another thread has the post.
    fn linger(&self, channel: usize, mut post: Post) -> Option<Post> {
        if self.rings().is_some() {
            return Some(post);
        }
        let begun = Instant::now();
        let (until, busy) = (begun + self.linger, begun + PUT_OFF_FOR.min(self.linger));
        let mut is_first = true;
        loop {
            let mut ready = [PollFd::new(&self.channels[channel], PollFlags::IN)];
            // The read that follows handles requests and errors.
            if !matches!(poll(&mut ready, Some(&Timespec::default())), Ok(0)) {
                return Some(post);
            }
            if std::mem::take(&mut is_first) {
                self.fs.afterwards();
            }
            let now = Instant::now();
            if now >= busy && self.fs.has_put_off() {
                post = self.work_at(post, || self.fs.catch_up())?;
                continue;
            }
            if now >= until {
                return Some(post);
            }
            std::thread::yield_now();
        }
    }

    fn nothing_more(&self, errno: Option<Errno>) {
        while self.fs.has_put_off() {
            self.fs.catch_up();
        }
        if let Some(errno) = errno {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(errno);
        }
        self.reader_pool.close();
        if let Some(rings) = &self.rings {
            rings.wake();
        }
    }
}
