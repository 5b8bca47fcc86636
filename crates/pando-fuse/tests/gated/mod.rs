//! A file system that answers some requests only when its gate is opened.
//!
//! The root has one file, `file`, which is node 2. These requests wait at the gate: a lookup of
//! `stuck`, a create of `new`, and the operations given to [`Gated::hold`].

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::HashSet;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use pando_fuse::device::{
    Entry, Errno, FileSystem, Listing, Notifier, Operation, Reply, Request, abi, step_aside,
};

/// Counts of what happened.
#[derive(Default, Debug)]
pub struct Counts {
    /// Number of requests that came to the gate.
    pub waiting: u64,
    /// Lookups that the kernel was told, less those forgotten.
    pub lookups: i64,
    /// Opens that the kernel was told, less those released.
    pub opens: i64,
    /// Number of answers that did not reach the kernel.
    pub undelivered: u64,
    /// Whether the session is over.
    pub is_ended: bool,
}

#[derive(Default)]
struct State {
    is_open: bool,
    wakers: Vec<Waker>,
    held: HashSet<&'static str>,
    put_off: Vec<Reply>,
    notifier: Option<Notifier>,
    counts: Counts,
}

/// The file system. Clones share their state.
#[derive(Clone, Default)]
pub struct Gated(Arc<(Mutex<State>, Condvar)>);

impl Gated {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let result = work(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
        result
    }

    /// Makes an operation wait at the gate from now on. The operation is "getattr", "flush",
    /// "fsync" or "read". The last two block their thread; only "fsync" steps aside before. With
    /// "release", RELEASE is postponed instead.
    pub fn hold(&self, operation: &'static str) {
        self.with(|state| state.held.insert(operation));
    }

    /// Makes each ACCESS from now on notify the kernel, and answer with the result.
    pub fn notify_with(&self, notifier: Notifier) {
        self.with(|state| state.notifier = Some(notifier));
    }

    fn notify(&self) -> Result<(), Errno> {
        let Some(notifier) = self.with(|state| state.notifier.clone()) else { return Ok(()) };
        notifier.inval_inode(2, 0, 0).map_err(|error| match error.kind() {
            ErrorKind::Deadlock => Errno::DEADLK,
            _ => Errno::IO,
        })
    }

    fn is_held(&self, operation: &str) -> bool {
        self.with(|state| state.held.contains(operation))
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        let wakers = self.with(|state| {
            state.is_open = true;
            std::mem::take(&mut state.wakers)
        });
        // In reverse order: answers come out of order.
        wakers.into_iter().rev().for_each(Waker::wake);
    }

    /// Waits until the counts meet a condition.
    pub fn until(&self, what: &str, condition: impl Fn(&Counts) -> bool) {
        let state = self.0.0.lock().unwrap();
        let limit = Duration::from_secs(60);
        let (state, late) =
            self.0.1.wait_timeout_while(state, limit, |state| !condition(&state.counts)).unwrap();
        assert!(!late.timed_out(), "{what}: {:?}", state.counts);
    }

    async fn pass(&self) {
        let mut has_come = false;
        poll_fn(|context| {
            self.with(|state| {
                if !std::mem::replace(&mut has_come, true) {
                    state.counts.waiting += 1;
                }
                if state.is_open {
                    return Poll::Ready(());
                }
                state.wakers.push(context.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }

    fn block(&self) {
        self.with(|state| state.counts.waiting += 1);
        let state = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(state, |state| !state.is_open).unwrap());
    }

    fn told(&self, is_heard: bool, lookups: i64, opens: i64) {
        self.with(|state| {
            if is_heard {
                state.counts.lookups += lookups;
                state.counts.opens += opens;
            } else {
                state.counts.undelivered += 1;
            }
        });
    }

    fn entry(&self, reply: Reply, node: u64) {
        let is_heard = reply.entry(&entry(node)).is_ok();
        self.told(is_heard, 1, 0);
    }
}

fn entry(node: u64) -> Entry {
    Entry { node, attr: attr(node), entry_timeout: Duration::ZERO, attr_timeout: Duration::ZERO }
}

fn attr(node: u64) -> abi::Attr {
    let mode = if node == 1 { 0o040_755 } else { 0o100_644 };
    abi::Attr { ino: node, mode, nlink: 1, size: 5, blksize: 4096, ..Default::default() }
}

impl FileSystem for Gated {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        let (this, node) = (self.clone(), request.node);
        let delivery = match request.operation {
            Operation::Lookup { name: b"file" } => return self.entry(reply, 2),
            Operation::Lookup { name: b"stuck" } => {
                return reply.run(|reply| async move {
                    this.pass().await;
                    this.entry(reply, 3);
                });
            }
            Operation::Lookup { .. } => reply.error(Errno::NOENT),
            Operation::Create { .. } => {
                return reply.run(|reply| async move {
                    this.pass().await;
                    this.told(reply.created(&entry(4), 0, 0).is_ok(), 1, 1);
                });
            }
            Operation::Getattr if self.is_held("getattr") => {
                return reply.run(|reply| async move {
                    this.pass().await;
                    this.told(reply.attr(attr(node), Duration::ZERO).is_ok(), 0, 0);
                });
            }
            Operation::Getattr | Operation::Setattr(_) => reply.attr(attr(node), Duration::ZERO),
            Operation::Open { .. } => {
                let is_heard = reply.opened(0, 0).is_ok();
                return self.told(is_heard, 0, 1);
            }
            Operation::Release { .. } if self.is_held("release") => {
                return self.with(|state| state.put_off.push(reply));
            }
            Operation::Release { .. } => {
                self.told(true, 0, -1);
                reply.ok()
            }
            Operation::Flush { .. } if self.is_held("flush") => {
                return reply.run(|reply| async move {
                    this.pass().await;
                    this.told(reply.ok().is_ok(), 0, 0);
                });
            }
            Operation::Fsync if self.is_held("fsync") => {
                if step_aside() {
                    self.block();
                    reply.ok()
                } else {
                    return reply.queue(move |reply| {
                        this.block();
                        this.told(reply.ok().is_ok(), 0, 0);
                    });
                }
            }
            Operation::Read { .. } => {
                if self.is_held("read") {
                    self.block();
                }
                reply.data(b"bytes")
            }
            Operation::Opendir => reply.opened(0, 0),
            Operation::Readdir { size, offset, .. } => {
                let mut listing = Listing::new(size);
                if offset == 0 {
                    listing.add(2, 1, 0o100_644, b"file");
                }
                reply.listing(&listing)
            }
            Operation::Flush { .. } | Operation::Fsync | Operation::Releasedir { .. } => reply.ok(),
            Operation::Access { .. } => reply.done(self.notify()),
            Operation::Write { data, .. } => reply.written(data.len() as u32),
            Operation::Getxattr { .. } => reply.error(Errno::NODATA),
            Operation::Statfs => reply.statfs(&abi::StatfsOut::default()),
            _ => reply.error(Errno::NOSYS),
        };
        if delivery.is_err() {
            self.told(false, 0, 0);
        }
    }

    fn forget(&self, _node: u64, count: u64) {
        self.told(true, -count.cast_signed(), 0);
    }

    fn has_put_off(&self) -> bool {
        self.with(|state| !state.put_off.is_empty())
    }

    fn catch_up(&self) {
        if let Some(reply) = self.with(|state| state.put_off.pop()) {
            self.told(true, 0, -1);
            let _ = reply.ok();
        }
    }

    fn end(&self) {
        self.with(|state| state.counts.is_ended = true);
    }
}
