//! Where connections come in.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use pando_wire::Address;
use tokio::net::{TcpListener, UnixListener};

use crate::stream::{Stream, short_path, tune};

/// One socket that accepts connections. A Unix socket's path goes away with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf, _folder: Option<File> },
}

/// A connection that has come in.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// From where, for messages.
    pub from: String,
}

/// Why nobody can listen there.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody does.
    #[error(
        "{0} is in use: another process listens there. Name another address, or end that process"
    )]
    InUse(Address),
    /// The machine has no such address.
    #[error("{0} is not an address of this machine")]
    NotHere(Address),
    /// Anything else.
    #[error("cannot listen at {address}: {error}")]
    Io {
        /// Where.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
}

impl Listener {
    /// Listens. A Unix socket that a dead process left is replaced, and only its owner may connect. Needs a runtime.
    pub async fn bind(address: &Address) -> Result<Self, ListenError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse(address.clone()),
            io::ErrorKind::AddrNotAvailable => ListenError::NotHere(address.clone()),
            _ => ListenError::Io { address: address.clone(), error },
        };
        let socket = match address {
            Address::Tcp(host, port) => {
                Socket::Tcp(TcpListener::bind((host.as_str(), *port)).await.map_err(failed)?)
            }
            Address::Unix(path) => {
                let (folder, short) = short_path(path).map_err(failed)?;
                if UnixListener::bind(&short).is_err() {
                    let is_alive = tokio::net::UnixStream::connect(&short).await.is_ok();
                    if is_alive {
                        return Err(ListenError::InUse(address.clone()));
                    }
                }
                let _ = fs::remove_file(&short);
                let listener = UnixListener::bind(&short).map_err(failed)?;
                fs::set_permissions(&short, fs::Permissions::from_mode(0o600)).map_err(failed)?;
                Socket::Unix { listener, path: path.clone(), _folder: folder }
            }
        };
        Ok(Self { socket })
    }

    /// Where it listens: with the port that the system chose, if 0 was asked for.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match &self.socket {
            Socket::Tcp(listener) => {
                let address = listener.local_addr()?;
                Address::Tcp(address.ip().to_string(), address.port())
            }
            Socket::Unix { path, .. } => Address::Unix(path.clone()),
        })
    }

    /// Waits for a connection.
    pub async fn accept(&self) -> io::Result<Accepted> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                tune(&stream)?;
                Ok(Accepted { stream: Stream::Tcp(stream), from: from.to_string() })
            }
            Socket::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                let from = match stream.peer_cred().ok().and_then(|cred| cred.pid()) {
                    Some(pid) => format!("process {pid}"),
                    None => "a process of this machine".to_owned(),
                };
                Ok(Accepted { stream: Stream::Unix(stream), from })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix { path, .. } = &self.socket {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether an address leads to this very machine only.
pub fn is_loopback(address: &Address) -> io::Result<bool> {
    match address {
        Address::Unix(_) => Ok(true),
        Address::Tcp(host, port) => {
            let mut resolved = (host.as_str(), *port).to_socket_addrs()?.peekable();
            Ok(resolved.peek().is_some() && resolved.all(|at: SocketAddr| at.ip().is_loopback()))
        }
    }
}
