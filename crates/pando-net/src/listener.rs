//! Sockets that accept connections.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pando_wire::Address;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::stream::{Stream, overflow_user, short_path, tune};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket that accepts connections. Dropping it removes a Unix socket's path.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix { listener: UnixListener, path: PathBuf, id: FileId, owner: u32 },
}

/// What the kernel tells of a connection's other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A connection over TCP from this address, which proves nothing.
    Network(IpAddr),
    /// A Unix socket's client that is root, or the owner of the socket's folder.
    Owner,
    /// A Unix socket's client that is another user.
    Stranger(u32),
}

impl Origin {
    /// The origin for `user`, over a Unix socket in a folder of `owner`.
    fn of_user(user: u32, owner: u32) -> Self {
        if user == 0 || (user == owner && user != overflow_user()) {
            Self::Owner
        } else {
            Self::Stranger(user)
        }
    }
}

/// Device and inode of a file: which file it is, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileId(u64, u64);

impl FileId {
    /// The file at `path` itself: a symlink is not followed.
    fn at(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|metadata| Self(metadata.dev(), metadata.ino()))
    }
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// The other side, for messages.
    pub from: String,
    /// The other side, to decide by.
    pub origin: Origin,
}

/// Why no process can listen there.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error(
        "{0} is in use: another process listens there. Name another address, or end that process"
    )]
    InUse(Address),
    /// The machine has no such address.
    #[error("{0} is not an address of this machine")]
    NotHere(Address),
    /// A file that is not a socket is there.
    #[error(
        "cannot listen at {0}: a file that is not a socket is there. Move it away, or name another path"
    )]
    NotASocket(Address),
    /// Another error of the system.
    #[error("cannot listen at {address}: {error}")]
    Io {
        /// The address.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
}

impl Listener {
    /// Listens at `address`. A Unix socket that a dead process has left is replaced, and only its
    /// owner may connect; nothing else is ever replaced. If several processes do this at one path
    /// at once, the last one wins: a lock must settle before which of them may. Needs a runtime.
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
                match found_at(path).await.map_err(failed)? {
                    Found::Nothing | Found::DeadSocket => {}
                    Found::LiveSocket => return Err(ListenError::InUse(address.clone())),
                    Found::Other => return Err(ListenError::NotASocket(address.clone())),
                }
                let listener = listen_at(path).map_err(failed)?;
                let folder = path.parent().filter(|folder| *folder != Path::new(""));
                let owner = fs::metadata(folder.unwrap_or(Path::new("."))).map_err(failed)?.uid();
                let id = FileId::at(path).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let listener = UnixListener::from_std(listener).map_err(failed)?;
                Socket::Unix { listener, path: path.clone(), id, owner }
            }
        };
        Ok(Self { socket })
    }

    /// The address at which it listens. If port 0 was asked for, the address has the port that the
    /// system chose.
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
                let origin = Origin::Network(from.ip().to_canonical());
                Ok(Accepted { stream: Stream::Tcp(stream), from: from.to_string(), origin })
            }
            Socket::Unix { listener, owner, .. } => {
                let (stream, _) = listener.accept().await?;
                let peer = stream.peer_cred()?;
                let from = match peer.pid() {
                    Some(pid) => format!("process {pid}"),
                    None => "a process of this machine".to_owned(),
                };
                let origin = Origin::of_user(peer.uid(), *owner);
                Ok(Accepted { stream: Stream::Unix(stream), from, origin })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another process may have replaced the socket.
        if let Socket::Unix { path, id, .. } = &self.socket
            && FileId::at(path).is_ok_and(|found| found == *id)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// What is at the path of a socket.
enum Found {
    Nothing,
    DeadSocket,
    LiveSocket,
    Other,
}

async fn found_at(path: &Path) -> io::Result<Found> {
    let (_folder, short) = short_path(path)?;
    // A path that is too long to connect to is refused here.
    SocketAddrUnix::new(&short)?;
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Ok(Found::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(&short).await {
        Ok(_) => Ok(Found::LiveSocket),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Ok(Found::DeadSocket),
            io::ErrorKind::NotFound => Ok(Found::Nothing),
            // Too many connections wait there to be accepted.
            io::ErrorKind::WouldBlock => Ok(Found::LiveSocket),
            _ => Err(error),
        },
    }
}

/// Listens at `path`, and replaces what is there. The socket is made under another name in the
/// folder, and takes its place when it is complete. So no other user can connect at any time, and a
/// process that finds the socket finds it alive. The process's umask plays no part, as all its
/// threads share it.
pub fn listen_at(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let draft = path.with_file_name(format!(".new-{:016x}", random));
    let (_folder, short) = short_path(&draft)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&short)?)?;
    let complete = || {
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))?;
        // Before this call no process can connect.
        rustix::net::listen(&socket, BACKLOG)?;
        fs::rename(&draft, path)
    };
    complete().inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(test)
    }

    #[test]
    fn a_caller_over_a_unix_socket_is_root_or_the_folders_owner_or_a_stranger() {
        assert_eq!(Origin::of_user(0, 1000), Origin::Owner);
        assert_eq!(Origin::of_user(1000, 1000), Origin::Owner);
        assert_eq!(Origin::of_user(1001, 1000), Origin::Stranger(1001));
        // This number stands for every user that this user namespace does not know: the folder's
        // owner, and any other.
        assert_eq!(Origin::of_user(65_534, 65_534), Origin::Stranger(65_534));
    }

    #[test]
    fn a_dead_socket_is_replaced_and_nothing_else_is() {
        let temp = tempfile::tempdir().unwrap();
        let long = temp.path().join("x".repeat(120));
        fs::create_dir(&long).unwrap();
        for path in [temp.path().join("s.sock"), long.join("s.sock")] {
            let address = Address::Unix(path.clone());
            run(async {
                let (_folder, short) = short_path(&path).unwrap();
                drop(std::os::unix::net::UnixListener::bind(&short).unwrap());
                let listener = Listener::bind(&address).await.unwrap();
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
                let error = Listener::bind(&address).await.unwrap_err();
                assert!(matches!(error, ListenError::InUse(_)), "{error}");
                let stream = Stream::connect(&address).await.unwrap();
                assert!(listener.accept().await.is_ok());
                drop((stream, listener));
                assert!(!path.exists());
                fs::write(&path, "precious").unwrap();
                let error = Listener::bind(&address).await.unwrap_err();
                assert!(matches!(error, ListenError::NotASocket(_)), "{error}");
                assert_eq!(fs::read(&path).unwrap(), b"precious");
                fs::remove_file(&path).unwrap();
            });
            let left = fs::read_dir(path.parent().unwrap()).unwrap();
            let names = left.map(|entry| entry.unwrap().file_name());
            assert!(names.into_iter().all(|name| name.len() == 120));
        }
    }

    #[test]
    fn a_full_backlog_is_alive() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("s.sock");
        let flags = SocketFlags::NONBLOCK;
        let open = || {
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
        };
        let (socket, at) = (open(), SocketAddrUnix::new(&path).unwrap());
        rustix::net::bind(&socket, &at).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        let mut waiting = Vec::new();
        loop {
            let client = open();
            match rustix::net::connect(&client, &at) {
                Ok(()) => waiting.push(client),
                Err(error) => break assert_eq!(error, rustix::io::Errno::AGAIN),
            }
        }
        let error = run(Listener::bind(&Address::Unix(path))).unwrap_err();
        assert!(matches!(error, ListenError::InUse(_)), "{error}");
    }

    #[test]
    fn the_socket_of_a_successor_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("s.sock");
        run(async {
            let first = Listener::bind(&Address::Unix(path.clone())).await.unwrap();
            fs::remove_file(&path).unwrap();
            let second = Listener::bind(&Address::Unix(path.clone())).await.unwrap();
            drop(first);
            assert!(path.exists());
            drop(second);
            assert!(!path.exists());
        });
    }
}
