//! A relay between clients and servers that delays all bytes, and so makes the network as slow as
//! wanted.
//!
//! ```text
//!   client ◄──────► door 0 ◄─ half of the round trip, each way ─► server 0
//!   client ◄──────► door 1 ◄──────────────────────────────────► server 1
//! ```
//!
//! If a whole volume runs on one machine, a round trip takes some 50 µs, and CPUs limit the speed.
//! Behind the relay, round trips limit it, as between machines. One thread serves all doors. It
//! waits in `ppoll`, whose timeout has nanoseconds; timers of a runtime have milliseconds.
//!
//! Invariants:
//! 1. Bytes are passed on after the delay, never before. They are late only by the time that the
//!    machine takes to wake the thread. [`crate::echo::relayed`] measures that.
//! 2. Bytes keep their order in each direction of a connection. None is lost, added or changed.
//! 3. Any number of frames may be in flight. If [`QUEUE_MAX`] bytes wait in one direction, the
//!    relay stops reading from that sender until some are taken.
//! 4. The end of a connection is passed on after the last byte, with the delay.
//! 5. Opening a connection is not delayed.

mod engine;
mod frames;
mod pump;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use socket::Listener;

/// Bytes that may wait in one direction of a connection. The relay then stops reading.
pub const QUEUE_MAX: usize = 8 << 20;

/// An address of a door or of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// TCP, with `TCP_NODELAY`.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// One door of the relay: connections to `listen` are passed on to `to`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// Where the door listens. It is a TCP address, whose port may be 0 for any free port, or an
    /// unused path.
    pub listen: Place,
    /// The server's address. The server need not listen yet.
    pub to: Place,
}

/// Counts of one door. A frame is a length of four bytes, little-endian, and as many further bytes.
/// `pando-wire` and [`crate::echo`] send such frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Passed {
    /// Frames to the server.
    pub frames_in: u64,
    /// Frames from the server.
    pub frames_out: u64,
    /// Bytes to the server.
    pub bytes_in: u64,
    /// Bytes from the server.
    pub bytes_out: u64,
}

impl Passed {
    /// Frames in both directions.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames_in + self.frames_out
    }

    /// The counts since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            frames_in: self.frames_in - before.frames_in,
            frames_out: self.frames_out - before.frames_out,
            bytes_in: self.bytes_in - before.bytes_in,
            bytes_out: self.bytes_out - before.bytes_out,
        }
    }
}

/// Bytes that were passed on, as [`Relay::watch`] reports them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Index of the door, in the order of `Relay::start`.
    pub door: usize,
    /// Number of the connection, unique within the relay.
    pub connection: u64,
    /// Whether they went to the server.
    pub is_in: bool,
    /// Time at which they reached the relay, just after they were sent.
    pub came: Instant,
    /// Time at which they were passed on, just before they are received.
    pub left: Instant,
    /// The bytes. The reports of one direction of a connection hold all of its bytes, in order.
    pub bytes: Vec<u8>,
}

/// A relay at work. Dropping it ends all its connections.
pub struct Relay {
    places: Vec<Place>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// State that the thread shares with the [`Relay`].
struct Shared {
    doors: Vec<DoorState>,
    is_stopped: AtomicBool,
    watcher: Mutex<Option<Sender<Seen>>>,
    is_watched: AtomicBool,
    /// Bytes that wait in the relay.
    waiting: AtomicU64,
    /// A write to it wakes the thread, which then checks the other fields.
    wake: OwnedFd,
}

#[derive(Default)]
struct DoorState {
    frames: [AtomicU64; 2],
    bytes: [AtomicU64; 2],
}

impl Relay {
    /// Opens the doors. `round_trip` is added to a request and its reply together, half of it each
    /// way.
    pub fn start(doors: Vec<Door>, round_trip: Duration) -> io::Result<Self> {
        let (mut listeners, mut places) = (Vec::new(), Vec::new());
        for door in doors {
            let listener = Listener::bind(&door.listen)?;
            places.push(listener.place()?);
            listeners.push((listener, door.to));
        }
        let shared = Arc::new(Shared {
            doors: places.iter().map(|_| DoorState::default()).collect(),
            is_stopped: AtomicBool::new(false),
            watcher: Mutex::new(None),
            is_watched: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let engine = engine::Engine::new(listeners, round_trip / 2, shared.clone());
        let thread =
            std::thread::Builder::new().name("bench-relay".to_owned()).spawn(|| engine.run())?;
        Ok(Self { places, shared, thread: Some(thread) })
    }

    /// Addresses of the doors, in the order of `start`, with the ports that the system chose.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Counts of each door, in the order of `start`.
    #[must_use]
    pub fn passed(&self) -> Vec<Passed> {
        let of = |door: &DoorState| {
            let [frames_in, frames_out] = door.frames.each_ref().map(load);
            let [bytes_in, bytes_out] = door.bytes.each_ref().map(load);
            Passed { frames_in, frames_out, bytes_in, bytes_out }
        };
        self.shared.doors.iter().map(of).collect()
    }

    /// Bytes that wait in the relay, on all connections together.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        load(&self.shared.waiting)
    }

    /// Reports everything that is passed on from now on, until the receiver is dropped. An earlier
    /// receiver gets no further reports.
    #[must_use]
    pub fn watch(&self) -> Receiver<Seen> {
        let (send, receive) = channel();
        *self.shared.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(send);
        self.shared.is_watched.store(true, Ordering::Release);
        receive
    }
}

fn load(number: &AtomicU64) -> u64 {
    number.load(Ordering::Acquire)
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Sends a report to the watcher, if there is one.
    fn tell(&self, seen: Seen) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.as_ref().is_none_or(|watcher| watcher.send(seen).is_err()) {
            *watcher = None;
            self.is_watched.store(false, Ordering::Release);
        }
    }

    fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
