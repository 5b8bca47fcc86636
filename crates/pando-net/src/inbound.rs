//! Bytes that come in, as messages.

use std::io;
use std::sync::Arc;

use pando_wire::{Decoder, FIRST_FRAMES_MAX, FRAME_MAX, FrameError, Message};

use crate::stream::{Detached, Stream};

/// Read at once, at most; one buffer for all connections of a thread.
pub const READ_MAX: usize = 256 << 10;

/// The incoming half of a connection.
#[derive(Debug)]
pub struct Inbound {
    stream: Arc<Stream>,
    decoder: Decoder,
}

/// An [`Inbound`] on its way between two runtimes.
#[derive(Debug)]
pub struct DetachedInbound {
    stream: Detached,
    decoder: Decoder,
}

/// Why nothing more comes.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// The other side has ended, between two frames.
    #[error("the other side has closed the connection")]
    End,
    /// The other side has ended within a frame.
    #[error("the connection ended in the middle of a frame")]
    Cut,
    /// The connection is broken.
    #[error("the connection is broken: {0}")]
    Io(#[from] io::Error),
    /// It sends what is no frame.
    #[error("it sends {0}")]
    Frame(#[from] FrameError),
}

impl Inbound {
    /// Of this stream; frames are short until [`Inbound::welcome`].
    #[must_use]
    pub fn new(stream: Arc<Stream>) -> Self {
        let mut decoder = Decoder::new();
        decoder.limit(FIRST_FRAMES_MAX);
        Self { stream, decoder }
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// From now on frames may have their full length.
    pub fn welcome(&mut self) {
        self.decoder.limit(FRAME_MAX);
    }

    /// Refuses frames beyond `bytes` from now on.
    pub fn limit(&mut self, bytes: u32) {
        self.decoder.limit(bytes);
    }

    /// Takes it from its runtime, to go on with [`Inbound::attach`] in another.
    ///
    /// # Panics
    /// If somebody else holds the stream.
    pub fn detach(self) -> io::Result<DetachedInbound> {
        let stream = Arc::try_unwrap(self.stream).expect("nobody else holds the stream yet");
        Ok(DetachedInbound { stream: stream.detach()?, decoder: self.decoder })
    }

    /// Goes on in the current runtime.
    pub fn attach(detached: DetachedInbound) -> io::Result<Self> {
        Ok(Self { stream: Arc::new(detached.stream.attach()?), decoder: detached.decoder })
    }

    /// The next message at hand, if a whole one is.
    pub fn next_message(&mut self) -> Result<Option<(pando_wire::Stream, Message)>, Closed> {
        Ok(self.decoder.message()?)
    }

    /// Bytes of a frame that is not whole yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.decoder.pending()
    }

    /// Waits for bytes and takes what has come, through `buffer`.
    pub async fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Closed> {
        loop {
            self.stream.readable().await?;
            if self.fill_now(buffer)? {
                return Ok(());
            }
        }
    }

    /// Takes what has come, if anything has.
    pub fn fill_now(&mut self, buffer: &mut [u8]) -> Result<bool, Closed> {
        match self.stream.try_read(buffer) {
            Ok(0) if self.decoder.pending() > 0 => Err(Closed::Cut),
            Ok(0) => Err(Closed::End),
            Ok(count) => {
                self.decoder.feed(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the next message.
    pub async fn message(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<(pando_wire::Stream, Message), Closed> {
        loop {
            if let Some(found) = self.next_message()? {
                return Ok(found);
            }
            self.fill(buffer).await?;
        }
    }
}
