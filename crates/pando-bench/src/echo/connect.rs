//! Connections, made before anybody serves them, so that who serves never waits for one that does not come.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use super::Socket;

/// One side's ends, not blocking.
pub(super) enum Streams {
    Tcp(Vec<TcpStream>),
    Unix(Vec<UnixStream>),
}

/// Both sides' ends of so many connections.
pub(super) fn connect(socket: Socket, connections: u32) -> io::Result<(Streams, Streams)> {
    match socket {
        Socket::Tcp => {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let address = listener.local_addr()?;
            let (ours, theirs) = ends(connections, || {
                let one = TcpStream::connect(address)?;
                let (other, _) = listener.accept()?;
                for end in [&one, &other] {
                    end.set_nodelay(true)?;
                    end.set_nonblocking(true)?;
                }
                Ok((one, other))
            })?;
            Ok((Streams::Tcp(ours), Streams::Tcp(theirs)))
        }
        Socket::Unix => {
            let (ours, theirs) = ends(connections, || {
                let (one, other) = UnixStream::pair()?;
                one.set_nonblocking(true)?;
                other.set_nonblocking(true)?;
                Ok((one, other))
            })?;
            Ok((Streams::Unix(ours), Streams::Unix(theirs)))
        }
    }
}

fn ends<S>(
    connections: u32,
    mut make: impl FnMut() -> io::Result<(S, S)>,
) -> io::Result<(Vec<S>, Vec<S>)> {
    let pairs = (0..connections).map(|_| make()).collect::<io::Result<Vec<_>>>()?;
    Ok(pairs.into_iter().unzip())
}
