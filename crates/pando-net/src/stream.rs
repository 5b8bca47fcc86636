//! A connection of either kind.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pando_wire::Address;
use rustix::net::sockopt;
use tokio::net::{TcpStream, UnixStream};

/// A connection that is silent for so long is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(10);
/// What was sent and is not acknowledged for so long ends the connection.
const GONE_AFTER: Duration = Duration::from_secs(20);

/// A connected socket. Any number of threads may try to read and write.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP, without delay.
    Tcp(TcpStream),
    /// Within the machine.
    Unix(UnixStream),
}

/// A connected socket of either kind, of no runtime.
#[derive(Debug)]
pub enum Detached {
    /// Over TCP.
    Tcp(std::net::TcpStream),
    /// Within the machine.
    Unix(std::os::unix::net::UnixStream),
}

impl Stream {
    /// Connects. The caller limits the time.
    pub async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                tune(&stream)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => {
                let (_folder, short) = short_path(path)?;
                Ok(Self::Unix(UnixStream::connect(short).await?))
            }
        }
    }

    /// Reads what is there; `Ok(0)`: the other side has ended.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
        }
    }

    /// Writes what fits.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Waits until something can be read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    /// Waits until something can be written.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Ends both directions, whoever else still holds the stream.
    pub fn shut(&self) {
        let how = rustix::net::Shutdown::Both;
        // One that is not connected any more needs no end.
        let _ = match self {
            Self::Tcp(stream) => rustix::net::shutdown(stream, how),
            Self::Unix(stream) => rustix::net::shutdown(stream, how),
        };
    }

    /// Whether it stays within this machine, as the kernel sees it.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Takes it from its runtime, to be [attached](Detached::attach) to another.
    pub fn detach(self) -> io::Result<Detached> {
        Ok(match self {
            Self::Tcp(stream) => Detached::Tcp(stream.into_std()?),
            Self::Unix(stream) => Detached::Unix(stream.into_std()?),
        })
    }
}

impl Detached {
    /// Gives it to the current runtime.
    pub fn attach(self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream)?),
            Self::Unix(stream) => Stream::Unix(UnixStream::from_std(stream)?),
        })
    }
}

/// Sends without delay, and notices within some twenty seconds that the other side's machine or the way to it is gone.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 2)?;
    sockopt::set_tcp_user_timeout(stream, GONE_AFTER.as_millis() as u32)?;
    Ok(())
}

/// A socket's path holds 107 bytes at most: a longer one goes through a descriptor of its folder, which is to be kept open
/// until the path has been used.
pub fn short_path(path: &Path) -> io::Result<(Option<File>, PathBuf)> {
    if path.as_os_str().len() < 100 {
        return Ok((None, path.to_owned()));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = File::open(parent)?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((Some(folder), short))
}
