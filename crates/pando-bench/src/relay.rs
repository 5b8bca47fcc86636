//! A relay that delays: stands between clients and servers and makes the network between them as
//! slow as is wanted.
//!
//! ```text
//!   client ◄──────► door 0 ◄─ half of the round trip, each way ─► server 0
//!   client ◄──────► door 1 ◄──────────────────────────────────► server 1
//! ```
//!
//! Where all of a volume runs on one machine, a round trip takes some 50 µs and processors decide
//! what is fast. Behind the relay round trips decide, as between machines. One thread serves all
//! doors: it waits in `ppoll`, to the nanosecond as far as the kernel goes, since a runtime's
//! timers have milliseconds.
//!
//! 1. What comes in is passed on after the delay, never before; later only by what the machine
//!    takes to wake the thread. How much that is, [`crate::echo::relayed`] measures.
//! 2. Bytes keep their order in each direction of a connection, and nothing is lost, added or
//!    looked into.
//! 3. Any number of frames may be under way; whoever sends more than [`QUEUE_MAX`] is read again
//!    when some have been taken.
//! 4. An end of a connection is passed on behind the last byte, after the delay.
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

/// Bytes that may wait in one direction of a connection.
pub const QUEUE_MAX: usize = 8 << 20;

/// Where one is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// Over TCP, without delay of its own.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A way through the relay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// Where it listens: a TCP address, with port 0 for any that is free, or a path where nothing
    /// is.
    pub listen: Place,
    /// Where it leads. Whoever is there need not be there yet.
    pub to: Place,
}

/// What has gone through one door. A frame is four bytes of length, little-endian, and so many
/// more: what `pando-wire` and [`crate::echo`] send.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Passed {
    /// Frames to the server.
    pub frames_in: u64,
    /// Frames from it.
    pub frames_out: u64,
    /// Bytes to the server.
    pub bytes_in: u64,
    /// Bytes from it.
    pub bytes_out: u64,
}

impl Passed {
    /// Frames in both directions.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames_in + self.frames_out
    }

    /// What has come since `before`.
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

/// Bytes that went through, for whoever watches: see [`Relay::watch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Which door, in the order in which they were given.
    pub door: usize,
    /// Which connection; no two of one relay have the same.
    pub connection: u64,
    /// Whether they went to the server.
    pub is_in: bool,
    /// When they came to the relay: just after they were sent.
    pub came: Instant,
    /// When they were passed on: just before they are received.
    pub left: Instant,
    /// The bytes: of one direction of a connection, all, in order.
    pub bytes: Vec<u8>,
}

/// A relay at work. Dropping it ends all its connections.
pub struct Relay {
    places: Vec<Place>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with whoever holds the relay.
struct Shared {
    doors: Vec<DoorState>,
    is_stopped: AtomicBool,
    watcher: Mutex<Option<Sender<Seen>>>,
    is_watched: AtomicBool,
    /// Bytes that are under way in it.
    waiting: AtomicU64,
    /// Written to whenever the thread is to look at the above.
    wake: OwnedFd,
}

#[derive(Default)]
struct DoorState {
    frames: [AtomicU64; 2],
    bytes: [AtomicU64; 2],
}

impl Relay {
    /// Opens the doors. `round_trip` is what is added to a question and its answer together: half
    /// of it each way.
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

    /// Where the doors are, in the order in which they were given; with the ports that the system
    /// chose.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// What has gone through each door.
    #[must_use]
    pub fn passed(&self) -> Vec<Passed> {
        let of = |door: &DoorState| {
            let [frames_in, frames_out] = door.frames.each_ref().map(load);
            let [bytes_in, bytes_out] = door.bytes.each_ref().map(load);
            Passed { frames_in, frames_out, bytes_in, bytes_out }
        };
        self.shared.doors.iter().map(of).collect()
    }

    /// Bytes that wait in the relay, all connections together.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        load(&self.shared.waiting)
    }

    /// Has everything told that goes through from now on, until the receiver is dropped; whoever
    /// was told before hears no more.
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

    /// Tells whoever watches.
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
#[path = "relay/tests.rs"]
mod tests;
