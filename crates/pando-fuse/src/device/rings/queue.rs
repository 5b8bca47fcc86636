//! One queue of a mount's requests: a ring of io_uring, and its entries.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use io_uring::squeue::{Entry128, PushError};
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::entry::Entry;
use crate::protocol::abi::{UringCommand, uring};

/// Most entries of a queue: requests that it may have unanswered.
pub(crate) const ENTRIES_MAX: usize = 1024;
/// Entries that the kernel has at least, while there may be more. A new entry takes no request that
/// waits already: only the next answer does (`fuse_uring_do_register`, Linux 6.18). So there must
/// be one before it is needed.
const READY: usize = 32;
/// Most requests that wait for a lock of a file. Others must come through, to unlock.
const LOCK_WAITS_MAX: usize = ENTRIES_MAX / 2;
/// Commands that are submitted at once: one. Each is submitted as soon as it is made.
const SUBMITTED: u32 = 4;
/// Tag of the completion that only wakes.
const WAKE: u64 = u64::MAX;
/// Tries to submit, where the kernel has no memory for a moment.
const TRIES: u32 = 100;

thread_local! {
    /// The queue that this thread serves. It is only compared.
    static SERVED: Cell<*const Queue> = const { Cell::new(std::ptr::null()) };
}

/// One queue. Requests of callers on its CPU come here.
pub(crate) struct Queue {
    number: u16,
    // It is dropped before the entries.
    ring: IoUring<Entry128, cqueue::Entry>,
    /// Held while a command is submitted.
    submitting: Mutex<()>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    slots: Vec<Slot>,
    /// Entries whose answers other threads have written. The holder of the post submits them.
    late: Vec<usize>,
    armed: usize,
    lost: usize,
    /// Unanswered requests that wait for a lock.
    lock_waits: usize,
}

struct Slot {
    entry: Entry,
    commit_id: u64,
    /// The kernel has it, or may have it.
    is_armed: bool,
    waits_for_lock: bool,
}

/// What came by a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// A request, in this entry.
    Request(usize),
    /// Something else is to be looked at.
    Wake,
    /// The kernel has given an entry back without a request.
    Lost(Errno),
}

impl Queue {
    pub(super) fn new(number: u16) -> io::Result<Self> {
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        let ring = builder.setup_cqsize(2 * ENTRIES_MAX as u32).dontfork().build(SUBMITTED)?;
        Ok(Self { number, ring, submitting: Mutex::default(), inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one more entry, and gives it to the kernel. The thread that calls this must live as
    /// long as the mount: the kernel has it write the next request to the entry.
    pub(crate) fn add(&self, channel: &OwnedFd) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.slots.len() == ENTRIES_MAX {
            return Err(Errno::AGAIN.into());
        }
        let entry = Entry::new()?;
        let mut command = self.command(channel, uring::REGISTER, 0, inner.slots.len());
        command = command.addr_and_len(entry.vectors(), 2);
        let slot = Slot { entry, commit_id: 0, is_armed: true, waits_for_lock: false };
        inner.slots.push(slot);
        inner.armed += 1;
        drop(inner);
        self.submit(&command.0)
    }

    /// Writes an answer to an entry. It leaves with [`Self::commit`].
    pub(crate) fn answer(&self, entry: usize, unique: u64, errno: i32, parts: &[&[u8]]) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(slot) = inner.slots.get_mut(entry).filter(|slot| !slot.is_armed) else { return };
        if std::mem::take(&mut slot.waits_for_lock) {
            inner.lock_waits -= 1;
        }
        if !slot.entry.answer(unique, errno, parts) {
            slot.entry.answer(unique, Errno::IO.raw_os_error(), &[]);
        }
    }

    /// Sends the answer in an entry, and gives the entry back to the kernel, for the next request.
    /// Only the holder of the queue's post calls this: see [`Self::add`].
    pub(crate) fn commit(&self, channel: &OwnedFd, entry: usize) -> io::Result<()> {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.get_mut(entry).filter(|slot| !slot.is_armed) else {
            return Ok(());
        };
        slot.is_armed = true;
        let commit_id = slot.commit_id;
        inner.armed += 1;
        drop(inner);
        self.submit(&self.command(channel, uring::COMMIT_AND_FETCH, commit_id, entry).0)
    }

    /// Leaves an answer to the holder of the queue's post, and wakes that thread.
    pub(crate) fn commit_later(&self, entry: usize) {
        let mut inner = self.lock();
        inner.late.push(entry);
        let is_first = inner.late.len() == 1;
        drop(inner);
        if is_first {
            self.wake();
        }
    }

    /// Sends the answers that were left by other threads.
    pub(crate) fn commit_late(&self, channel: &OwnedFd) {
        let late = std::mem::take(&mut self.lock().late);
        for entry in late {
            let _ = self.commit(channel, entry);
        }
    }

    /// Wakes the thread that waits.
    pub(crate) fn wake(&self) {
        let command: Entry128 = opcode::Nop::new().build().user_data(WAKE).into();
        let _ = self.submit(&command);
    }

    /// What came next, if anything did. Only the holder of the queue's post calls this.
    pub(crate) fn next(&self) -> Option<Came> {
        let mut inner = self.lock();
        // SAFETY: the lock is held here, and wherever else the completion queue is used.
        let completion = unsafe { self.ring.completion_shared() }.next()?;
        if completion.user_data() == WAKE {
            return Some(Came::Wake);
        }
        let entry = completion.user_data() as usize;
        let Some(slot) = inner.slots.get_mut(entry) else { return Some(Came::Wake) };
        slot.is_armed = false;
        inner.armed -= 1;
        if completion.result() < 0 {
            inner.lost += 1;
            return Some(Came::Lost(Errno::from_raw_os_error(-completion.result())));
        }
        Some(Came::Request(entry))
    }

    /// Copies the request in an entry to `buffer`. Returns its length. The error is the number of a
    /// request that makes no sense.
    pub(crate) fn take(&self, entry: usize, buffer: &mut [u8]) -> Result<usize, u64> {
        let mut inner = self.lock();
        let slot = inner.slots.get_mut(entry).filter(|slot| !slot.is_armed).ok_or(0u64)?;
        slot.commit_id = slot.entry.commit_id();
        slot.entry.take(buffer).ok_or(slot.commit_id)
    }

    /// Notes that the request in an entry may wait for a lock. Returns false if too many do.
    pub(crate) fn may_wait_for_lock(&self, entry: usize) -> bool {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(slot) = inner.slots.get_mut(entry) else { return false };
        if inner.lock_waits == LOCK_WAITS_MAX {
            return false;
        }
        inner.lock_waits += 1;
        slot.waits_for_lock = true;
        true
    }

    /// Waits until something came.
    pub(crate) fn wait(&self) {
        /// `IORING_ENTER_GETEVENTS`
        const GET_EVENTS: u32 = 1;
        // SAFETY: nothing is submitted, and no signal mask is passed.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 1, GET_EVENTS, None) };
    }

    /// Makes entries until the kernel has enough for the next requests.
    pub(crate) fn keep_ready(&self, channel: &OwnedFd) {
        while self.lock().armed < READY && self.add(channel).is_ok() {}
    }

    /// Notes that this thread serves the queue.
    pub(crate) fn begin_serving(&self) {
        SERVED.set(self);
    }

    pub(crate) fn end_serving() {
        SERVED.set(std::ptr::null());
    }

    /// Whether this thread serves the queue. It may have lost the post meanwhile.
    pub(crate) fn is_served_here(&self) -> bool {
        std::ptr::eq(SERVED.get(), self)
    }

    /// Whether the kernel has given all entries back, so that nothing can come.
    pub(crate) fn is_lost(&self) -> bool {
        let inner = self.lock();
        inner.lost == inner.slots.len()
    }

    fn command(&self, channel: &OwnedFd, code: u32, commit_id: u64, entry: usize) -> Command {
        let own = UringCommand { commit_id, qid: self.number, ..Default::default() };
        let mut bytes = [0; 80];
        bytes[..size_of::<UringCommand>()].copy_from_slice(own.as_bytes());
        let command = opcode::UringCmd80::new(types::Fd(channel.as_raw_fd()), code).cmd(bytes);
        Command(command.build().user_data(entry as u64))
    }

    fn submit(&self, command: &Entry128) -> io::Result<()> {
        let _one = self.submitting.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held here, the only place where the submission queue is used. What a
        // command points to, an entry's memory, outlives it.
        let pushed = unsafe { self.ring.submission_shared().push(command) };
        pushed.map_err(|PushError { .. }| io::Error::from(Errno::AGAIN))?;
        for _ in 0..TRIES {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => std::thread::yield_now(),
            }
        }
        // The next one that is submitted takes it along.
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while self.next().is_some() {}
        let slots = std::mem::take(&mut self.lock().slots);
        for slot in slots {
            // What the kernel may still write to stays mapped.
            if !slot.is_armed {
                slot.entry.free();
            }
        }
    }
}

/// A command to the kernel.
struct Command(Entry128);

impl Command {
    /// The crate does not let `len` be set for commands.
    fn addr_and_len(mut self, addr: u64, len: u32) -> Self {
        const ADDR: usize = 16;
        const LEN: usize = 24;
        const { assert!(size_of::<Entry128>() == 128) };
        let start = (&raw mut self.0).cast::<u8>();
        // SAFETY: both fields are within the 128 bytes of the kernel's structure `io_uring_sqe`,
        // which begins the value, at aligned offsets of its interface.
        unsafe {
            start.add(ADDR).cast::<u64>().write(addr);
            start.add(LEN).cast::<u32>().write(len);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with a request, as if the kernel had written one.
    fn slot() -> Slot {
        let entry = Entry::new().unwrap();
        Slot { entry, commit_id: 0, is_armed: false, waits_for_lock: false }
    }

    #[test]
    fn waits_for_locks_leave_entries_for_unlocks() {
        let queue = Queue::new(0).expect("this test needs io_uring");
        queue.lock().slots.extend((0..=LOCK_WAITS_MAX).map(|_| slot()));
        for entry in 0..LOCK_WAITS_MAX {
            assert!(queue.may_wait_for_lock(entry));
        }
        assert!(!queue.may_wait_for_lock(LOCK_WAITS_MAX));
        queue.answer(7, 14, 0, &[]);
        assert!(queue.may_wait_for_lock(LOCK_WAITS_MAX));
    }

    #[test]
    fn answers_of_other_threads_wake_once() {
        let queue = Queue::new(0).expect("this test needs io_uring");
        assert_eq!(queue.next(), None);
        queue.commit_later(3);
        queue.commit_later(5);
        queue.wait();
        assert_eq!(queue.next(), Some(Came::Wake));
        assert_eq!(queue.next(), None);
        assert_eq!(std::mem::take(&mut queue.lock().late), [3, 5]);
        queue.commit_later(3);
        assert_eq!(queue.next(), Some(Came::Wake));
    }
}
