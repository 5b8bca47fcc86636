//! The relay's thread: waits for sockets and for due times, and passes bytes on.

use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pump::{Delivered, Pump};
use super::socket::{Listener, Stream};
use super::{Place, Seen, Shared};

/// The most bytes that one read takes.
const BUFFER: usize = 256 << 10;

/// A connection through a door. Side 0 is the client's, side 1 the server's. Pump 0 carries bytes
/// to the server, pump 1 to the client.
struct Connection {
    door: usize,
    number: u64,
    sides: [Stream; 2],
    pumps: [Pump; 2],
}

/// State of the relay's thread.
pub(super) struct Engine {
    listeners: Vec<(Listener, Place)>,
    delay: Duration,
    shared: Arc<Shared>,
    connections: Vec<Connection>,
    next_number: u64,
    buffer: Box<[u8]>,
}

impl Engine {
    pub(super) fn new(
        listeners: Vec<(Listener, Place)>,
        delay: Duration,
        shared: Arc<Shared>,
    ) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Self { listeners, delay, shared, connections: Vec::new(), next_number: 0, buffer }
    }

    pub(super) fn run(mut self) {
        // By default the kernel may wake a sleeping thread up to 50 µs late. If this call fails,
        // that slack remains.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut ready = Vec::new();
        while !self.shared.is_stopped() {
            self.pass_on();
            self.wait(&mut ready);
            if self.shared.is_stopped() {
                return;
            }
            self.take(&ready);
            self.let_in(&ready);
        }
    }

    /// Passes on the bytes that are due, and removes connections that are over.
    fn pass_on(&mut self) {
        let (shared, now) = (&self.shared, Instant::now());
        self.connections.retain_mut(|connection| {
            let Connection { door, number, sides, pumps } = connection;
            for (way, pump) in pumps.iter_mut().enumerate() {
                let delivered = |parcel: Delivered| count(shared, (*door, *number, way), parcel);
                if pump.due().is_some_and(|due| due <= now)
                    && pump.write(&sides[1 - way], now, delivered).is_err()
                {
                    lose(shared, pumps);
                    return false;
                }
            }
            !pumps.iter().all(Pump::is_over)
        });
    }

    /// Waits for sockets or the next due time. Sets in `ready` what each socket is ready for: first
    /// the doors, then both sides of each connection.
    fn wait(&self, ready: &mut Vec<PollFlags>) {
        let due = self.connections.iter().flat_map(|it| &it.pumps).filter_map(Pump::due).min();
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let doors = self.listeners.iter().map(|(listener, _)| (listener.as_fd(), PollFlags::IN));
        let sides = self.connections.iter().flat_map(|connection| {
            let Connection { sides, pumps: [inward, outward], .. } = connection;
            [(&sides[0], inward, outward), (&sides[1], outward, inward)]
                .map(|(side, from, to)| (side.as_fd(), interest(from, to)))
        });
        ready.clear();
        let (mut all, mut places) = (Vec::new(), Vec::new());
        for (fd, flags) in doors.chain(sides) {
            // A socket of which nothing is wanted is left out. If its peer hung up, it would wake
            // the thread over and over.
            if !flags.is_empty() {
                all.push(PollFd::from_borrowed_fd(fd, flags));
                places.push(ready.len());
            }
            ready.push(PollFlags::empty());
        }
        all.push(PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN));
        // After an interruption or an error, the thread passes on what is due and waits again.
        let _ = poll(&mut all, timeout.as_ref());
        for (place, polled) in places.into_iter().zip(&all) {
            ready[place] = polled.revents();
        }
    }

    /// Reads bytes that have arrived, and unblocks pumps whose receivers take bytes again.
    fn take(&mut self, ready: &[PollFlags]) {
        let Self { shared, buffer, delay, .. } = self;
        let mut flags = ready[self.listeners.len()..].chunks_exact(2);
        self.connections.retain_mut(|connection| {
            let Some(flags) = flags.next() else { return true };
            let Connection { sides, pumps, .. } = connection;
            for side in [0, 1] {
                let [incoming, outgoing] = [side, 1 - side];
                if flags[side].intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP) {
                    pumps[outgoing].unblock();
                }
                let is_readable = PollFlags::IN | PollFlags::ERR | PollFlags::HUP;
                if !flags[side].intersects(is_readable) || !pumps[incoming].wants_more() {
                    continue;
                }
                match pumps[incoming].read(&sides[side], buffer, *delay) {
                    Ok(count) => drop(shared.waiting.fetch_add(count, Ordering::AcqRel)),
                    Err(_) => {
                        lose(shared, pumps);
                        return false;
                    }
                }
            }
            true
        });
    }

    /// Accepts clients. If a client's server is not reachable, its connection is closed.
    fn let_in(&mut self, ready: &[PollFlags]) {
        for (door, (listener, to)) in self.listeners.iter().enumerate() {
            if ready[door].is_empty() {
                continue;
            }
            while let Ok(client) = listener.accept() {
                let Ok(server) = Stream::connect(to) else { continue };
                self.next_number += 1;
                let (number, pumps) = (self.next_number, Default::default());
                self.connections.push(Connection { door, number, sides: [client, server], pumps });
            }
        }
    }
}

/// What to wait for at one side: its bytes, if there is room for them, and room at it, if bytes for
/// it are due.
fn interest(from: &Pump, to: &Pump) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, from.wants_more());
    flags.set(PollFlags::OUT, to.is_blocked());
    flags
}

fn count(shared: &Shared, (door, connection, way): (usize, u64, usize), parcel: Delivered) {
    let Delivered { came, frames, bytes } = parcel;
    let state = &shared.doors[door];
    state.frames[way].fetch_add(frames, Ordering::AcqRel);
    state.bytes[way].fetch_add(bytes.len() as u64, Ordering::AcqRel);
    shared.waiting.fetch_sub(bytes.len() as u64, Ordering::AcqRel);
    if shared.is_watched() {
        let left = Instant::now();
        shared.tell(Seen { door, connection, is_in: way == 0, came, left, bytes });
    }
}

/// Subtracts the bytes that a broken connection still held. They are lost.
fn lose(shared: &Shared, pumps: &[Pump; 2]) {
    let lost: usize = pumps.iter().map(Pump::queued).sum();
    shared.waiting.fetch_sub(lost as u64, Ordering::AcqRel);
}
