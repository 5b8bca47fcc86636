//! One direction of a connection: the bytes that were read, and the times at which they are due.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::QUEUE_MAX;
use super::frames::Frames;
use super::socket::Stream;

/// The bytes of one read.
struct Parcel {
    came: Instant,
    due: Instant,
    bytes: Vec<u8>,
    /// Number of these bytes that have been written.
    sent: usize,
}

/// A parcel that has been passed on.
pub(super) struct Delivered {
    pub(super) came: Instant,
    pub(super) frames: u64,
    pub(super) bytes: Vec<u8>,
}

/// A queue of parcels from one side to the other.
#[derive(Default)]
pub(super) struct Pump {
    queue: VecDeque<Parcel>,
    queued: usize,
    frames: Frames,
    /// Time at which to pass on the sender's end. Set when the sender has ended.
    end: Option<Instant>,
    /// The receiver has no room for more bytes at present.
    is_blocked: bool,
    is_over: bool,
}

impl Pump {
    /// Whether to read from the sender.
    pub(super) const fn wants_more(&self) -> bool {
        self.end.is_none() && !self.is_over && self.queued < QUEUE_MAX
    }

    /// Whether bytes are due that the receiver has no room for.
    pub(super) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Whether the sender's end was passed on.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Time of the next parcel or end to pass on. `None` if there is none, or if the receiver has
    /// no room.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.is_blocked || self.is_over {
            return None;
        }
        self.queue.front().map(|parcel| parcel.due).or(self.end)
    }

    /// Notes that the receiver may have room again.
    pub(super) const fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Reads what has arrived, at most one buffer. Returns the number of bytes.
    pub(super) fn read(
        &mut self,
        from: &Stream,
        buffer: &mut [u8],
        delay: Duration,
    ) -> io::Result<u64> {
        match from.read(buffer) {
            Ok(0) => {
                self.end = Some(Instant::now() + delay);
                Ok(0)
            }
            Ok(count) => {
                let came = Instant::now();
                let bytes = buffer[..count].to_vec();
                self.queue.push_back(Parcel { came, due: came + delay, bytes, sent: 0 });
                self.queued += count;
                Ok(count as u64)
            }
            Err(error) if is_later(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Passes on what is due, as far as the receiver has room.
    pub(super) fn write(
        &mut self,
        to: &Stream,
        now: Instant,
        mut delivered: impl FnMut(Delivered),
    ) -> io::Result<()> {
        while let Some(parcel) = self.queue.front_mut()
            && parcel.due <= now
        {
            match to.write(&parcel.bytes[parcel.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => parcel.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_later(&error) => {
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            if parcel.sent == parcel.bytes.len()
                && let Some(Parcel { came, bytes, .. }) = self.queue.pop_front()
            {
                self.queued -= bytes.len();
                let frames = self.frames.ended(&bytes);
                delivered(Delivered { came, frames, bytes });
            }
        }
        if self.queue.is_empty() && self.end.is_some_and(|end| end <= now) && !self.is_over {
            to.end();
            self.is_over = true;
        }
        Ok(())
    }

    /// Number of bytes that wait.
    pub(super) const fn queued(&self) -> usize {
        self.queued
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
