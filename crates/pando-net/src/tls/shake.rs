//! The handshake: rustls speaks, over a socket that waits in tokio. It yields a [`Sealer`], an
//! [`Opener`], and the other side's certificates.

use std::io;

use rustls::client::UnbufferedClientConnection;
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{CommonState, Error, ExtractedSecrets};

use crate::stream::Stream;
use crate::tls::error::{Denial, TlsError};
use crate::tls::keys::Keys;
use crate::tls::record::{HEAD, Opener, Sealer, Shared};
use crate::tls::shown::Shown;

/// Bytes that are read at once.
const READ: usize = 8 << 10;
/// Most bytes of a handshake's record, sealed or not.
const RECORD_MAX: usize = (1 << 14) + 256;
/// Most bytes that wait to become a message of the handshake. A chain of certificates is far
/// shorter.
const WAITING_MAX: usize = 64 << 10;

/// The result of a handshake.
pub(crate) struct Shaken {
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    /// The other side's certificates, with its identity and their end.
    pub(crate) shown: Shown,
    /// Bytes that came after the handshake.
    pub(crate) rest: Vec<u8>,
}

/// The handshake of the side that connects. The other side must be a server of this volume.
pub(crate) async fn connect(stream: &Stream, keys: &Keys) -> Result<Shaken, TlsError> {
    let name = ServerName::try_from("pando").expect("that is a name");
    let side = UnbufferedClientConnection::new(keys.client_config()?, name)?;
    shake(stream, side).await
}

/// The handshake of the side that accepts. The other side must have a key of this volume.
pub(crate) async fn accept(stream: &Stream, keys: &Keys) -> Result<Shaken, TlsError> {
    let side = UnbufferedServerConnection::new(keys.server_config()?)?;
    shake(stream, side).await
}

/// What both sides' connections of rustls have in common, which share no trait there.
trait Side: Sized {
    type Data: Send + 'static;
    fn common(&self) -> &CommonState;
    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn into_kernel(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error>;
}

macro_rules! side {
    ($connection:ty, $data:ty) => {
        impl Side for $connection {
            type Data = $data;

            fn common(&self) -> &CommonState {
                self
            }

            fn process<'c, 'i>(
                &'c mut self,
                bytes: &'i mut [u8],
            ) -> UnbufferedStatus<'c, 'i, Self::Data> {
                self.process_tls_records(bytes)
            }

            fn into_kernel(self) -> Result<(ExtractedSecrets, KernelConnection<$data>), Error> {
                self.dangerous_into_kernel_connection()
            }
        }
    };
}

side!(UnbufferedClientConnection, rustls::client::ClientConnectionData);
side!(UnbufferedServerConnection, rustls::server::ServerConnectionData);

/// What to do next.
enum Next {
    /// Write the bytes that are there to send.
    Write,
    Read,
    Again,
    Done,
}

async fn shake(stream: &Stream, mut side: impl Side) -> Result<Shaken, TlsError> {
    let (mut incoming, mut outgoing) = (Incoming::default(), Vec::new());
    loop {
        let next = match step(&mut side, &mut incoming, &mut outgoing) {
            Ok(next) => next,
            Err(error) => {
                // The other side gets the alert, if it still listens.
                while let Ok(Next::Again) = step(&mut side, &mut incoming, &mut outgoing) {}
                let _ = write(stream, &outgoing).await;
                return Err(error);
            }
        };
        match next {
            Next::Again => {}
            Next::Write => {
                write(stream, &outgoing).await?;
                outgoing.clear();
            }
            Next::Read => incoming.read(stream).await?,
            Next::Done => break,
        }
    }
    let chain = side.common().peer_certificates().ok_or(TlsError::Peer(Denial::NoKey))?;
    let shown = Shown::new(chain)?;
    let (secrets, kernel) = side.into_kernel()?;
    let shared = Shared::new(kernel);
    let sealer = Sealer::new(secrets.tx, shared.clone())?;
    let opener = Opener::new(secrets.rx, shared)?;
    Ok(Shaken { sealer, opener, shown, rest: incoming.bytes })
}

/// Lets rustls do one thing.
fn step(
    side: &mut impl Side,
    incoming: &mut Incoming,
    outgoing: &mut Vec<u8>,
) -> Result<Next, TlsError> {
    // rustls never sees bytes after the handshake.
    if !side.common().is_handshaking() && !side.common().wants_write() && outgoing.is_empty() {
        return Ok(Next::Done);
    }
    let UnbufferedStatus { discard, state } = side.process(&mut incoming.bytes[..incoming.shown]);
    let next = match state {
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let start = outgoing.len();
            if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
                data.encode(&mut [])
            {
                outgoing.resize(start + required_size, 0);
                data.encode(&mut outgoing[start..])
                    .map_err(|error| Error::General(error.to_string()))?;
            }
            Ok(Next::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Next::Write)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Next::Read),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Next::Done),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(TlsError::End),
        Ok(_) => Err(Error::General("data before the end of the handshake".to_owned()).into()),
        Err(error) => Err(error.into()),
    };
    incoming.discard(discard);
    match next {
        Ok(Next::Read) if incoming.show()? => Ok(Next::Again),
        next => next,
    }
}

/// Bytes that have come. rustls gets one record after the other, as the bytes after the handshake
/// are not for it.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    shown: usize,
}

impl Incoming {
    fn discard(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.shown -= count;
    }

    /// Shows the next record to rustls; false if it is not complete.
    fn show(&mut self) -> Result<bool, TlsError> {
        let next = &self.bytes[self.shown..];
        // TLS has types 20 to 23 only, and 3 is the first half of each version. Frames of Pando
        // begin with their length.
        if !matches!(next, [] | [20..=23] | [20..=23, 3, ..]) {
            return Err(TlsError::NotTls);
        }
        let Some(&[_, _, _, high, low]) = next.first_chunk::<HEAD>() else { return Ok(false) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let record = HEAD + length;
        if length > RECORD_MAX || self.shown + record > WAITING_MAX {
            return Err(TlsError::NotTls);
        }
        let is_whole = next.len() >= record;
        if is_whole {
            self.shown += record;
        }
        Ok(is_whole)
    }

    async fn read(&mut self, stream: &Stream) -> Result<(), TlsError> {
        let mut buffer = [0; READ];
        loop {
            stream.readable().await?;
            match stream.try_read(&mut buffer) {
                Ok(0) => return Err(TlsError::End),
                Ok(count) => {
                    self.bytes.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(error) if is_to_repeat(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

pub(crate) async fn write(stream: &Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_to_repeat(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_to_repeat(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
