//! The incoming half of a connection: bytes become messages.

use std::io;
use std::sync::Arc;

use pando_wire::{Decoder, FIRST_FRAMES_MAX, FRAME_MAX, FrameError, Message};

use crate::stream::{Detached, Stream};
use crate::tls::{Alert, Fed, Opener, RecordError, Sealer};

/// Most bytes read at once. One buffer serves all connections of a thread.
pub const READ_MAX: usize = 256 << 10;

/// The incoming half of a connection.
#[derive(Debug)]
pub struct Inbound {
    stream: Arc<Stream>,
    decoder: Decoder,
    tls: Option<Tls>,
}

/// The state of TLS.
#[derive(Debug)]
struct Tls {
    opener: Opener,
    /// The sealer of the outgoing half, until that takes it.
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
    /// The other side has closed the connection, between two frames.
    #[error("the other side has closed the connection")]
    End,
    /// The other side has closed the connection within a frame.
    #[error("the connection ended in the middle of a frame")]
    Cut,
    /// The connection is broken.
    #[error("the connection is broken: {0}")]
    Io(#[from] io::Error),
    /// The other side sends bytes that are not a frame.
    #[error("it sends {0}")]
    Frame(#[from] FrameError),
    /// The other side sends bytes that are not a TLS record, or they were changed on the way.
    #[error("it sends {0}")]
    Record(#[from] RecordError),
    /// The other side has sent a TLS alert, and closes the connection.
    #[error("{0}")]
    Alert(Alert),
}

impl Inbound {
    /// The incoming half of `stream`, in plain text. Frames must be short until
    /// [`Inbound::welcome`].
    #[must_use]
    pub fn new(stream: Arc<Stream>) -> Self {
        let mut decoder = Decoder::new();
        decoder.limit(FIRST_FRAMES_MAX);
        Self { stream, decoder, tls: None }
    }

    /// Expects TLS records from now on. `bytes` have come already.
    pub(crate) fn secure(
        &mut self,
        opener: Opener,
        sealer: Sealer,
        mut bytes: Vec<u8>,
    ) -> Result<(), Closed> {
        self.tls = Some(Tls { opener, sealer: Some(sealer), is_ended: false });
        self.take(&mut bytes)
    }

    /// Takes the sealer for the outgoing half. There is one such half.
    pub(crate) fn take_sealer(&mut self) -> Option<Sealer> {
        let tls = self.tls.as_mut()?;
        Some(tls.sealer.take().expect("a connection has one other half"))
    }

    /// The sealer, until the outgoing half has taken it.
    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        self.tls.as_mut()?.sealer.as_mut()
    }

    /// The connection's stream.
    #[must_use]
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Allows frames of full length from now on.
    pub fn welcome(&mut self) {
        self.decoder.limit(FRAME_MAX);
    }

    /// Refuses frames beyond `bytes` from now on.
    pub fn limit(&mut self, bytes: u32) {
        self.decoder.limit(bytes);
    }

    /// Takes the connection from its runtime. [`Inbound::attach`] goes on in another.
    ///
    /// # Panics
    /// If the stream is shared.
    pub fn detach(self) -> io::Result<DetachedInbound> {
        let stream = Arc::try_unwrap(self.stream).expect("nobody else holds the stream yet");
        Ok(DetachedInbound { stream: stream.detach()?, decoder: self.decoder, tls: self.tls })
    }

    /// Goes on in the current runtime.
    pub fn attach(detached: DetachedInbound) -> io::Result<Self> {
        let DetachedInbound { stream, decoder, tls } = detached;
        Ok(Self { stream: Arc::new(stream.attach()?), decoder, tls })
    }

    /// The next message, if a complete one has come.
    pub fn next_message(&mut self) -> Result<Option<(pando_wire::Stream, Message)>, Closed> {
        Ok(self.decoder.message()?)
    }

    /// Most memory that the last message takes, besides its own size and the bytes of its frame.
    #[must_use]
    pub const fn heap(&self) -> usize {
        self.decoder.heap()
    }

    /// Bytes of an incomplete frame, and of an incomplete record.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.decoder.pending() + self.tls.as_ref().map_or(0, |tls| tls.opener.pending())
    }

    /// Waits for bytes, and takes in what has come, through `buffer`.
    pub async fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Closed> {
        loop {
            self.stream.readable().await?;
            if self.fill_now(buffer)? {
                return Ok(());
            }
        }
    }

    /// Takes in the bytes that have come; false if there are none.
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
