//! A connected socket, over TCP or in a Unix socket.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pando_wire::Address;
use rustix::net::sockopt;
use tokio::net::{TcpStream, UnixStream};

/// After this time without traffic, the kernel asks whether the other side is still there.
const IDLE: Duration = Duration::from_secs(10);
/// The connection ends if sent bytes are not acknowledged within this time.
const GONE_AFTER: Duration = Duration::from_secs(20);

/// A connected socket. Any number of threads may try to read and write.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP, without delay.
    Tcp(TcpStream),
    /// Within the machine.
    Unix(UnixStream),
}

/// The process that listens at a Unix socket may not serve there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a process of user {user} listens at {}. That user is neither root, nor you, nor the owner of \
     that folder, so nothing was sent to it. End it, and see who may write to that folder",
    .path.display()
)]
pub struct Impostor {
    /// The path of the socket.
    pub path: PathBuf,
    /// The process's user.
    pub user: u32,
}

/// Whether a process of `user` may serve at a Unix socket. No key is shown there: the kernel tells
/// the user.
pub fn check_server(path: &Path, user: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let owner = fs::metadata(folder.unwrap_or(Path::new(".")))?.uid();
    let own = rustix::process::geteuid().as_raw();
    if user == 0 || (user != overflow_user() && (user == own || user == owner)) {
        return Ok(());
    }
    Err(io::Error::other(Impostor { path: path.to_owned(), user }))
}

/// The number that the kernel shows for every user that this user namespace does not know.
pub(crate) fn overflow_user() -> u32 {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid");
    overflow.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_534)
}

/// A connected socket that belongs to no runtime.
#[derive(Debug)]
pub enum Detached {
    /// Over TCP.
    Tcp(std::net::TcpStream),
    /// Within the machine.
    Unix(std::os::unix::net::UnixStream),
}

impl Stream {
    /// Connects. The caller limits the time. Over a Unix socket only to a process that may serve
    /// there: else the error is an [`Impostor`].
    pub async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                tune(&stream)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => {
                let (_folder, short) = short_path(path)?;
                let stream = UnixStream::connect(short).await?;
                check_server(path, stream.peer_cred()?.uid())?;
                Ok(Self::Unix(stream))
            }
        }
    }

    /// Reads the bytes that have come. `Ok(0)` means that the other side has closed the connection.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
        }
    }

    /// Writes as many bytes as fit.
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

    /// Closes both directions, even if the stream is shared.
    pub fn shut(&self) {
        let how = rustix::net::Shutdown::Both;
        // A socket that is not connected any more needs no end.
        let _ = match self {
            Self::Tcp(stream) => rustix::net::shutdown(stream, how),
            Self::Unix(stream) => rustix::net::shutdown(stream, how),
        };
    }

    /// Whether it is a Unix socket, and so stays within this machine.
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

/// Sends without delay. Notices within some twenty seconds if the other side's machine, or the
/// network to it, is gone.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 2)?;
    sockopt::set_tcp_user_timeout(stream, GONE_AFTER.as_millis() as u32)?;
    Ok(())
}

/// A path to use for a socket, as one holds 107 bytes at most. A longer one goes through a
/// descriptor of its folder. Keep the returned file open until the path has been used.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Listens as another user, in a thread of its own.
    fn listener_of(user: u32, path: PathBuf) -> std::os::unix::net::UnixListener {
        let listens = move || {
            let uid = rustix::process::Uid::from_raw(user);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            std::os::unix::net::UnixListener::bind(path).unwrap()
        };
        std::thread::spawn(listens).join().unwrap()
    }

    #[test]
    fn a_socket_of_another_user_is_no_servers_unless_its_folder_is_theirs() {
        const SOMEBODY: u32 = 1001;
        assert!(rustix::process::geteuid().is_root(), "this test gives folders away");
        let temp = tempfile::tempdir().unwrap();
        let set = |mode| {
            let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
            fs::set_permissions(temp.path(), mode).unwrap();
        };
        set(0o1777);
        let path = temp.path().join("s.sock");
        let address = Address::Unix(path.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let connected = || runtime.block_on(Stream::connect(&address)).map(drop);
        let listener = listener_of(SOMEBODY, path.clone());
        let impostor = connected().unwrap_err().downcast::<Impostor>().unwrap();
        assert_eq!(impostor, Impostor { path: path.clone(), user: SOMEBODY });
        std::os::unix::fs::chown(temp.path(), Some(SOMEBODY), None).unwrap();
        connected().unwrap();
        drop(listener);
        fs::remove_file(&path).unwrap();
        // Root may serve in any folder.
        let _listener = listener_of(0, path);
        connected().unwrap();
    }

    #[test]
    fn an_owner_outside_this_namespace_may_be_any_user() {
        let temp = tempfile::tempdir().unwrap();
        let overflow = overflow_user();
        std::os::unix::fs::chown(temp.path(), Some(overflow), None).unwrap();
        assert!(check_server(&temp.path().join("s.sock"), overflow).is_err());
    }
}
