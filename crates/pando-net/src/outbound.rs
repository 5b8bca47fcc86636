//! The outgoing half of a connection.
//!
//! Any thread appends messages. A batch is flushed once, on the thread that made it. Only bytes
//! that the socket does not take at once are left to the connection's own task.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::inbound::Inbound;
use crate::stream::Stream;
use crate::tls::{HEAD, Sealer};

/// Capacity that an empty buffer keeps, bytes.
const KEPT_MAX: usize = 256 << 10;

/// The outgoing half of a connection.
#[derive(Debug)]
pub struct Outbound {
    stream: Arc<Stream>,
    buffer: Mutex<Buffer>,
    /// Bytes in the buffer.
    waiting: AtomicUsize,
    /// Bytes that the socket has taken, ever. They tell whether the other side reads.
    taken: AtomicUsize,
    /// Writes of which the socket took something, over all connections that share this counter.
    writes: Arc<AtomicU64>,
    is_closed: AtomicBool,
    /// The socket has not taken everything, or a caller leaves the write to the task.
    write: Notify,
    drained: Notify,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    sent: usize,
    sealer: Option<Sealer>,
    /// Bytes from here on are not ready to be written. If they are to be sealed, room for a head
    /// comes first.
    sealed: usize,
}

impl Buffer {
    fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let Some(_) = self.sealer else { return encode(&mut self.bytes) };
        if self.bytes.len() == self.sealed {
            self.bytes.extend([0; HEAD]);
        }
        encode(&mut self.bytes);
        if self.bytes.len() == self.sealed + HEAD {
            self.bytes.truncate(self.sealed);
        }
    }

    /// Makes all that was appended ready to be written.
    fn seal(&mut self) -> io::Result<()> {
        if let Some(sealer) = &mut self.sealer
            && self.sealed < self.bytes.len()
        {
            sealer.seal(&mut self.bytes, self.sealed).map_err(io::Error::other)?;
        }
        self.sealed = self.bytes.len();
        Ok(())
    }
}

impl Outbound {
    /// The outgoing half of the connection of `inbound`.
    ///
    /// # Panics
    /// If the connection is encrypted and has an outgoing half already.
    #[must_use]
    pub fn new(inbound: &mut Inbound) -> Self {
        Self::counted(inbound, Arc::default())
    }

    /// The outgoing half of the connection of `inbound`. It adds one to `writes` with each write,
    /// whatever its length.
    ///
    /// # Panics
    /// If the connection is encrypted and has an outgoing half already.
    #[must_use]
    pub fn counted(inbound: &mut Inbound, writes: Arc<AtomicU64>) -> Self {
        let sealer = inbound.take_sealer();
        let buffer = Buffer { bytes: Vec::new(), sent: 0, sealer, sealed: 0 };
        Self {
            stream: inbound.stream().clone(),
            buffer: Mutex::new(buffer),
            waiting: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            writes,
            is_closed: AtomicBool::new(false),
            write: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// The connection's stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Appends a message. On a closed connection it is lost.
    pub fn append(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.is_closed() {
            return;
        }
        let mut buffer = self.buffer.lock();
        buffer.append(encode);
        self.waiting.store(buffer.bytes.len() - buffer.sent, Ordering::Release);
    }

    /// Writes what the socket takes now, and leaves the rest to [`Outbound::drive`].
    pub fn flush(&self) {
        match self.write_some() {
            Ok(true) => {}
            Ok(false) => self.write.notify_one(),
            Err(_) => self.close(),
        }
    }

    /// Lets [`Outbound::drive`] write. By the time its task runs, more may be appended.
    pub fn flush_soon(&self) {
        self.write.notify_one();
    }

    /// Bytes that the socket has not taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Bytes that the socket has taken so far.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns once fewer than `bytes` wait, or the connection is closed.
    pub async fn below(&self, bytes: usize) {
        loop {
            let drained = self.drained.notified();
            if self.waiting() < bytes || self.is_closed() {
                return;
            }
            drained.await;
        }
    }

    /// Writes what other threads have left, until the connection is closed.
    pub async fn drive(&self) {
        while !self.is_closed() {
            self.write.notified().await;
            loop {
                match self.write_some() {
                    Ok(true) => break,
                    Ok(false) => {
                        if self.stream.writable().await.is_err() {
                            return self.close();
                        }
                    }
                    Err(_) => return self.close(),
                }
            }
        }
    }

    /// Closes the connection in both directions. Nothing is sent any more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.stream.shut();
        self.write.notify_one();
        self.drained.notify_waiters();
    }

    /// Whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Writes what the socket takes. True if nothing is left.
    fn write_some(&self) -> io::Result<bool> {
        if self.is_closed() {
            return Ok(true);
        }
        let mut buffer = self.buffer.lock();
        buffer.seal()?;
        while buffer.sent < buffer.bytes.len() {
            match self.stream.try_write(&buffer.bytes[buffer.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    buffer.sent += count;
                    self.taken.fetch_add(count, Ordering::Relaxed);
                    self.writes.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let rest = buffer.bytes.len() - buffer.sent;
                    if buffer.sent > rest {
                        let sent = std::mem::take(&mut buffer.sent);
                        buffer.bytes.drain(..sent);
                        buffer.sealed -= sent;
                    }
                    self.waiting.store(rest, Ordering::Release);
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.bytes.clear();
        (buffer.sent, buffer.sealed) = (0, 0);
        if buffer.bytes.capacity() > KEPT_MAX {
            buffer.bytes = Vec::new();
        }
        let before = self.waiting.swap(0, Ordering::AcqRel);
        drop(buffer);
        if before > 0 {
            self.drained.notify_waiters();
        }
        Ok(true)
    }
}
