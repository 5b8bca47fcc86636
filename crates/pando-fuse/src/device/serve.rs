//! What the holder of a post does: it reads requests and has them handled, or runs woken tasks.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::device::counting::counted::Read;
use crate::device::doomed::is_doomed;
use crate::device::pending::{Early, Patience, Underway};
use crate::device::session::{Config, Reply, Session};
use crate::device::threads::reader_pool::Post;
use crate::protocol::channel::BUFFER_SIZE;
use crate::protocol::operation::Operation;
use crate::protocol::request::Request;

/// A reader gives the mount up after this many failures to read in a row. It pauses for
/// `READ_PAUSE` after each.
const READ_FAILURES_MAX: u32 = 100;
const READ_PAUSE: Duration = Duration::from_millis(10);

/// How long a reader polls before it runs postponed work. A busy program sends its next request
/// sooner.
const PUT_OFF_FOR: Duration = Duration::from_micros(20);
/// After this many requests in a row, a reader runs postponed work even if more requests are
/// waiting.
const IN_A_ROW_MAX: u32 = 32;

impl Session {
    /// Works at a post until the thread loses it or the session is over.
    pub(crate) fn hold(self: &Arc<Self>, post: Post, buffer: &mut Vec<u8>) {
        // The last role is the task runner's.
        if post.role < self.config.readers.max(1) {
            self.read_requests(post, buffer);
        } else {
            self.run_tasks(post);
        }
    }

    fn read_requests(self: &Arc<Self>, post: Post, buffer: &mut Vec<u8>) {
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
            in_a_row = in_a_row.wrapping_add(1);
            let is_due = in_a_row.is_multiple_of(IN_A_ROW_MAX) && self.fs.has_put_off();
            let held = self.work_at(post, || {
                self.take(&buffer[..len], channel);
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

    fn run_tasks(&self, mut post: Post) {
        while let Some(task) = self.tasks.next() {
            match self.work_at(post, || task.run()) {
                Some(again) => post = again,
                None => return,
            }
        }
    }

    /// Runs `work` as the holder of a post. Returns `None` if another thread has the post now.
    fn work_at(&self, post: Post, work: impl FnOnce()) -> Option<Post> {
        self.reader_pool.begin(post);
        self.watch.wake();
        work();
        self.reader_pool.end()
    }

    /// Polls for the next request before the thread sleeps. A wake-up from another CPU costs both
    /// sides more than that. Meanwhile the thread runs all postponed work, then yields the CPU.
    /// Returns `None` if another thread has the post.
    fn linger(&self, channel: usize, mut post: Post) -> Option<Post> {
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

    fn take(self: &Arc<Self>, bytes: &[u8], channel: usize) {
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    let _ = self.write(channel, unique, Errno::IO.raw_os_error(), &[]);
                }
                return;
            }
        };
        let unique = request.unique;
        if let Some(count) = self.requests.get(request.opcode as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        match &request.operation {
            Operation::Forget { count } => self.fs.forget(request.node, *count),
            Operation::BatchForget(all) => {
                all.clone().for_each(|(node, count)| self.fs.forget(node, count));
            }
            Operation::Interrupt { unique: target } => {
                self.interrupted(Early { target: *target, unique, channel });
            }
            Operation::Destroy => {
                let _ = self.write(channel, unique, 0, &[]);
            }
            // The session has already agreed with the kernel.
            Operation::Init(_) => {
                let _ = self.write(channel, unique, Errno::IO.raw_os_error(), &[]);
            }
            _ => {
                let patience = self.patience(&request.operation);
                let pid = request.caller.pid;
                let read = read_now(&request);
                let underway =
                    Underway { channel, pid, patience, interrupted: None, seen: None, read };
                let begun = self.pending.begin(unique, underway);
                begun.unknown.into_iter().for_each(|early| self.not_now(early));
                if begun.is_interrupted && is_doomed(pid) {
                    self.cut_short(unique);
                }
                self.fs.handle(&request, Reply::new(Arc::clone(self), channel, unique));
            }
        }
    }

    fn patience(&self, operation: &Operation<'_>) -> Patience {
        let is_content = matches!(
            operation,
            Operation::Read { .. }
                | Operation::Write { .. }
                | Operation::Flush { .. }
                | Operation::Fsync
                | Operation::Fsyncdir
                | Operation::Fallocate { .. }
                | Operation::Lseek { .. }
                | Operation::CopyFileRange { .. }
        );
        let Config { signal_patience, content_patience, .. } = self.config;
        let after_signal = match operation {
            // A handler that waits for a lock checks for signals itself ([`Reply::is_wanted`]). So
            // it never takes a lock for a caller that has given up.
            Operation::Setlk { waits: true, .. } => Duration::MAX,
            _ if is_content => content_patience,
            _ => signal_patience,
        };
        Patience { after_signal, at_exit: matches!(operation, Operation::Flush { .. }) }
    }

    /// Notes that a signal came to the caller of a request. A caller that is being killed is
    /// answered at once; the watch sees to the others.
    fn interrupted(&self, early: Early) {
        match self.pending.interrupt(early) {
            Ok(request) if is_doomed(request.pid) => self.cut_short(early.target),
            Ok(_) => {}
            Err(oldest) => oldest.into_iter().for_each(|early| self.not_now(early)),
        }
    }

    /// Answers an interrupt of a request that is not known here. The kernel repeats the interrupt
    /// while the request is unanswered.
    fn not_now(&self, early: Early) {
        let _ = self.write(early.channel, early.unique, Errno::AGAIN.raw_os_error(), &[]);
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
    }
}

fn read_now(request: &Request<'_>) -> Read {
    let bytes = match &request.operation {
        Operation::Write { data, .. } => data.len() as u32,
        _ => 0,
    };
    Read { opcode: request.opcode, uid: request.caller.uid, bytes, at: Instant::now() }
}
