//! Non-blocking sockets of either kind.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use super::Place;

/// A listening socket. Dropping it removes the path of a Unix socket.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(super) fn bind(at: &Place) -> io::Result<Self> {
        let listener = match at {
            Place::Tcp(address) => Self::Tcp(TcpListener::bind(address)?),
            Place::Unix(path) => Self::Unix(UnixListener::bind(path)?, path.clone()),
        };
        match &listener {
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
            Self::Unix(listener, _) => listener.set_nonblocking(true)?,
        }
        Ok(listener)
    }

    pub(super) fn place(&self) -> io::Result<Place> {
        Ok(match self {
            Self::Tcp(listener) => Place::Tcp(listener.local_addr()?),
            Self::Unix(_, path) => Place::Unix(path.clone()),
        })
    }

    /// Accepts a connection. `WouldBlock` if none waits.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Stream::tcp(listener.accept()?.0),
            Self::Unix(listener, _) => Stream::unix(listener.accept()?.0),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// One end of a connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects to a process of this machine. This blocks, but too shortly to matter.
    pub(super) fn connect(to: &Place) -> io::Result<Self> {
        match to {
            Place::Tcp(address) => Self::tcp(TcpStream::connect(address)?),
            Place::Unix(path) => Self::unix(UnixStream::connect(path)?),
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self::Tcp(stream))
    }

    fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::Unix(stream))
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(buffer),
            Self::Unix(stream) => (&*stream).read(buffer),
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
        }
    }

    /// Ends the sending direction.
    pub(super) fn end(&self) {
        // A socket that is not connected any more needs no end.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
