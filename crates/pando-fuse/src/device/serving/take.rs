//! One request: what it is, whose it is, and who answers it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::device::counting::counted::Read;
use crate::device::doomed::is_doomed;
use crate::device::pending::{Early, Patience, Underway};
use crate::device::rings::way::Way;
use crate::device::session::{Config, Reply, Session};
use crate::protocol::operation::Operation;
use crate::protocol::request::Request;

impl Session {
    /// Has a request handled, or handles what is the session's own.
    pub(super) fn take(self: &Arc<Self>, bytes: &[u8], way: Way) {
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    let _ = self.write(way, unique, Errno::IO.raw_os_error(), &[]);
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
                self.interrupted(Early { target: *target, unique, way });
            }
            Operation::Destroy => {
                let _ = self.write(way, unique, 0, &[]);
            }
            // The session has already agreed with the kernel.
            Operation::Init(_) => {
                let _ = self.write(way, unique, Errno::IO.raw_os_error(), &[]);
            }
            _ => {
                let patience = self.patience(&request.operation);
                let pid = request.caller.pid;
                let read = read_now(&request);
                let underway = Underway { way, pid, patience, interrupted: None, seen: None, read };
                let begun = self.pending.begin(unique, underway, self.rings().is_some());
                begun.unknown.into_iter().for_each(|early| self.not_now(early));
                if begun.is_interrupted && is_doomed(pid) {
                    self.cut_short(unique);
                }
                self.fs.handle(&request, Reply::new(Arc::clone(self), way, unique));
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
        let _ = self.write(early.way, early.unique, Errno::AGAIN.raw_os_error(), &[]);
    }
}

fn read_now(request: &Request<'_>) -> Read {
    let bytes = match &request.operation {
        Operation::Write { data, .. } => data.len() as u32,
        _ => 0,
    };
    Read { opcode: request.opcode, uid: request.caller.uid, bytes, at: Instant::now() }
}
