//! Requests that come by a queue of a ring. The thread of a queue stays on the queue's CPU, so that
//! no other CPU is woken for a request.

use std::sync::Arc;

use rustix::io::Errno;

use super::channel::IN_A_ROW_MAX;
use crate::device::rings::cpu;
use crate::device::rings::queue::{Came, Queue};
use crate::device::rings::way::Way;
use crate::device::session::Session;
use crate::device::threads::reader_pool::{IS_BOUND, Post};
use crate::protocol::abi::opcode;
use crate::protocol::channel::BUFFER_SIZE;

/// What a thread of a queue does while nothing comes, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Idle {
    /// Lets the caller that was answered run: it may ask again.
    Yields,
    /// Does what answers did not have to wait for.
    CleansUp,
    Sleeps,
}

impl Session {
    /// Serves a queue.
    pub(super) fn read_ring(
        self: &Arc<Self>,
        post: Post,
        queue: &Queue,
        number: usize,
        buffer: &mut Vec<u8>,
    ) {
        if buffer.is_empty() {
            *buffer = vec![0; BUFFER_SIZE];
        }
        cpu::stay_on(number);
        IS_BOUND.set(true);
        queue.begin_serving();
        self.serve_queue(post, queue, number, buffer);
        Queue::end_serving();
        cpu::leave();
    }

    fn serve_queue(
        self: &Arc<Self>,
        mut post: Post,
        queue: &Queue,
        number: usize,
        buffer: &mut [u8],
    ) {
        let channel = &self.channels[0];
        // Of entries that a previous holder has given to the kernel, that thread brings requests.
        // The kernel uses the newest one first.
        let _ = queue.add(channel);
        queue.keep_ready(channel);
        let (mut idle, mut in_a_row) = (Idle::Yields, 0u32);
        while !self.reader_pool.is_over() {
            queue.commit_late(channel);
            let came = queue.next();
            if came.is_some() {
                idle = Idle::Yields;
            }
            match came {
                Some(Came::Request(entry)) => {
                    in_a_row = in_a_row.wrapping_add(1);
                    let is_due = in_a_row.is_multiple_of(IN_A_ROW_MAX);
                    let way = Way::Ring { queue: number, entry };
                    let held = self.work_at(post, || {
                        self.take_from_ring(queue, way, entry, buffer);
                        if is_due && self.fs.has_put_off() {
                            self.fs.catch_up();
                        }
                    });
                    let Some(again) = held else { return };
                    post = again;
                    queue.keep_ready(channel);
                    if is_due {
                        self.fs.afterwards();
                    }
                }
                Some(Came::Lost(_)) if queue.is_lost() => {
                    if let Some(rings) = &self.rings {
                        rings.turn_off();
                    }
                    return;
                }
                Some(Came::Wake | Came::Lost(_)) => {}
                None => match self.be_idle(post, queue, &mut idle) {
                    Some(again) => post = again,
                    None => return,
                },
            }
        }
    }

    fn be_idle(&self, mut post: Post, queue: &Queue, idle: &mut Idle) -> Option<Post> {
        *idle = match *idle {
            Idle::Yields => {
                std::thread::yield_now();
                Idle::CleansUp
            }
            Idle::CleansUp => {
                self.fs.afterwards();
                if self.fs.has_put_off() {
                    post = self.work_at(post, || self.fs.catch_up())?;
                    return Some(post);
                }
                Idle::Sleeps
            }
            Idle::Sleeps => {
                queue.wait();
                Idle::Sleeps
            }
        };
        Some(post)
    }

    fn take_from_ring(self: &Arc<Self>, queue: &Queue, way: Way, entry: usize, buffer: &mut [u8]) {
        let refused = |unique, errno: Errno| _ = self.write(way, unique, errno.raw_os_error(), &[]);
        let len = match queue.take(entry, buffer) {
            Ok(len) => len,
            Err(unique) => return refused(unique, Errno::IO),
        };
        let opcode = buffer.get(4..8).and_then(|bytes| bytes.try_into().ok());
        let waits = opcode.map(u32::from_ne_bytes) == Some(opcode::SETLKW);
        if waits && !queue.may_wait_for_lock(entry) {
            let unique = buffer.get(8..16).and_then(|bytes| bytes.try_into().ok());
            return refused(unique.map_or(0, u64::from_ne_bytes), Errno::NOLCK);
        }
        self.take(&buffer[..len], way);
    }
}
