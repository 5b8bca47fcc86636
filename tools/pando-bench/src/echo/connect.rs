//! Makes all connections before the server starts. So the server never waits for a connection that
//! does not come.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Socket;
use crate::relay::{Door, Place, Relay};

/// One side's ends of all connections, in non-blocking mode.
pub(super) enum Streams {
    Tcp(Vec<TcpStream>),
    Unix(Vec<UnixStream>),
}

/// Makes `connections` connections, and returns the ends of both sides.
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

/// Makes `connections` TCP connections through a relay that adds `round_trip` to each round trip.
/// Returns the ends of both sides.
pub(super) fn connect_through_relay(
    connections: u32,
    round_trip: Duration,
) -> io::Result<(Streams, Streams, Relay)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let listen = Place::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let door = Door { listen, to: Place::Tcp(listener.local_addr()?) };
    let relay = Relay::start(vec![door], round_trip)?;
    let [Place::Tcp(address)] = relay.places() else {
        return Err(io::Error::other("a relay that was to listen at TCP does not"));
    };
    let (ours, theirs) = ends(connections, || {
        let one = TcpStream::connect(address)?;
        let (other, _) = listener.accept()?;
        for end in [&one, &other] {
            end.set_nodelay(true)?;
            end.set_nonblocking(true)?;
        }
        Ok((one, other))
    })?;
    Ok((Streams::Tcp(ours), Streams::Tcp(theirs), relay))
}

fn ends<S>(
    connections: u32,
    mut make: impl FnMut() -> io::Result<(S, S)>,
) -> io::Result<(Vec<S>, Vec<S>)> {
    let pairs = (0..connections).map(|_| make()).collect::<io::Result<Vec<_>>>()?;
    Ok(pairs.into_iter().unzip())
}
