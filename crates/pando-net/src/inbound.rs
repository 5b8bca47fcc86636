//! Bytes that come in, as messages.

use std::io;
use std::sync::Arc;

use pando_wire::{Decoder, FIRST_FRAMES_MAX, FRAME_MAX, FrameError, Message};

use crate::stream::{Detached, Stream};
use crate::tls::{Alert, Fed, Opener, RecordError, Sealer};

/// Read at once, at most; one buffer for all connections of a thread.
pub const READ_MAX: usize = 256 << 10;

/// The incoming half of a connection.
#[derive(Debug)]
pub struct Inbound {
    stream: Arc<Stream>,
    decoder: Decoder,
    tls: Option<Tls>,
}

/// What TLS adds.
#[derive(Debug)]
struct Tls {
    opener: Opener,
    /// For the other half, until that takes it.
    sealer: Option<Sealer>,
    /// The other side has said that nothing more comes.
    is_ended: bool,
}

/// An [`Inbound`] on its way between two runtimes.
#[derive(Debug)]
pub struct DetachedInbound {
    stream: Detached,
    decoder: Decoder,
    tls: Option<Tls>,
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
    /// It sends what is no record of TLS, or somebody on the way has changed it.
    #[error("it sends {0}")]
    Record(#[from] RecordError),
    /// It says what is wrong, and leaves.
    #[error("{0}")]
    Alert(Alert),
}

impl Inbound {
    /// Of this stream, in plain text; frames are short until [`Inbound::welcome`].
    #[must_use]
    pub fn new(stream: Arc<Stream>) -> Self {
        let mut decoder = Decoder::new();
        decoder.limit(FIRST_FRAMES_MAX);
        Self { stream, decoder, tls: None }
    }

    /// From now on there are records. `bytes` have come already.
    pub(crate) fn secure(
        &mut self,
        opener: Opener,
        sealer: Sealer,
        mut bytes: Vec<u8>,
    ) -> Result<(), Closed> {
        self.tls = Some(Tls { opener, sealer: Some(sealer), is_ended: false });
        self.take(&mut bytes)
    }

    /// What seals the other half; there is one other half.
    pub(crate) fn take_sealer(&mut self) -> Option<Sealer> {
        let tls = self.tls.as_mut()?;
        Some(tls.sealer.take().expect("a connection has one other half"))
    }

    /// What seals until the other half is there.
    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        self.tls.as_mut()?.sealer.as_mut()
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
        Ok(DetachedInbound { stream: stream.detach()?, decoder: self.decoder, tls: self.tls })
    }

    /// Goes on in the current runtime.
    pub fn attach(detached: DetachedInbound) -> io::Result<Self> {
        let DetachedInbound { stream, decoder, tls } = detached;
        Ok(Self { stream: Arc::new(stream.attach()?), decoder, tls })
    }

    /// The next message at hand, if a whole one is.
    pub fn next_message(&mut self) -> Result<Option<(pando_wire::Stream, Message)>, Closed> {
        Ok(self.decoder.message()?)
    }

    /// What the last message takes in memory at most besides its own size and the bytes of its
    /// frame.
    #[must_use]
    pub const fn heap(&self) -> usize {
        self.decoder.heap()
    }

    /// Bytes of a frame that is not whole yet, and of a record.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.decoder.pending() + self.tls.as_ref().map_or(0, |tls| tls.opener.pending())
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
        if self.tls.as_ref().is_some_and(|tls| tls.is_ended) {
            return Err(self.end());
        }
        match self.stream.try_read(buffer) {
            Ok(0) => Err(self.end()),
            Ok(count) => self.take(&mut buffer[..count]).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn end(&self) -> Closed {
        if self.pending() > 0 { Closed::Cut } else { Closed::End }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), Closed> {
        let Self { decoder, tls, .. } = self;
        let Some(tls) = tls else {
            decoder.feed(bytes);
            return Ok(());
        };
        match tls.opener.feed(bytes, |content| decoder.feed(content))? {
            Fed::More => {}
            Fed::Ended => tls.is_ended = true,
            Fed::Alert(alert) => return Err(Closed::Alert(alert)),
        }
        Ok(())
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
