//! Bytes come out as they went in, in order, and not before their time. The tests do not check how
//! late they are, since that depends on the machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;

const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

fn tcp_door(listener: &TcpListener) -> Door {
    let to = Place::Tcp(listener.local_addr().unwrap());
    Door { listen: Place::Tcp(ANY.into()), to }
}

fn address(relay: &Relay, door: usize) -> SocketAddr {
    match &relay.places()[door] {
        Place::Tcp(address) => *address,
        Place::Unix(_) => panic!("a TCP door"),
    }
}

/// A TCP relay, with both ends of a connection through it.
fn connected(round_trip: Duration) -> (Relay, TcpStream, TcpStream) {
    let listener = TcpListener::bind(ANY).unwrap();
    let relay = Relay::start(vec![tcp_door(&listener)], round_trip).unwrap();
    let client = TcpStream::connect(address(&relay, 0)).unwrap();
    let (server, _) = listener.accept().unwrap();
    (relay, client, server)
}

fn frame(number: u32) -> Vec<u8> {
    let len = number % 700;
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.resize(bytes.len() + len as usize, number as u8);
    bytes
}

#[test]
fn nothing_is_passed_on_before_its_time() {
    let round_trip = Duration::from_millis(6);
    let (_relay, mut client, mut server) = connected(round_trip);
    for _ in 0..5 {
        let begun = Instant::now();
        client.write_all(b"question").unwrap();
        let mut heard = [0; 8];
        server.read_exact(&mut heard).unwrap();
        assert!(begun.elapsed() >= round_trip / 2, "{:?}", begun.elapsed());
        server.write_all(b"answer..").unwrap();
        client.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"answer..");
        assert!(begun.elapsed() >= round_trip, "{:?}", begun.elapsed());
    }
}

#[test]
fn order_is_kept_on_many_connections_of_either_kind_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let [server_at, relay_at] = ["server", "relay"].map(|name| folder.path().join(name));
    let unix = UnixListener::bind(&server_at).unwrap();
    let tcp = TcpListener::bind(ANY).unwrap();
    let doors = vec![
        tcp_door(&tcp),
        Door { listen: Place::Unix(relay_at.clone()), to: Place::Unix(server_at) },
    ];
    let relay = Relay::start(doors, Duration::from_millis(1)).unwrap();
    let all: Vec<u8> = (0..2_000).flat_map(frame).collect();
    /// Sends everything, and checks that everything comes back.
    fn to_and_fro(
        mut stream: impl Read + Write + Send,
        other: impl Read + Write + Send,
        all: &[u8],
    ) {
        let mut other = other;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = vec![0; 10_000];
                let mut left = all.len();
                while left > 0 {
                    let count = other.read(&mut buffer).unwrap();
                    other.write_all(&buffer[..count]).unwrap();
                    left -= count;
                }
            });
            for piece in all.chunks(4_321) {
                stream.write_all(piece).unwrap();
            }
            let mut back = vec![0; all.len()];
            stream.read_exact(&mut back).unwrap();
            assert!(back == all);
        });
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let stream = TcpStream::connect(address(&relay, 0)).unwrap();
            let (other, _) = tcp.accept().unwrap();
            scope.spawn(|| to_and_fro(stream, other, &all));
            let stream = UnixStream::connect(&relay_at).unwrap();
            let (other, _) = unix.accept().unwrap();
            scope.spawn(|| to_and_fro(stream, other, &all));
        }
    });
    // The relay counts bytes a moment after it has passed them on.
    let begun = Instant::now();
    while relay.waiting() > 0 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    for passed in relay.passed() {
        assert_eq!((passed.frames_in, passed.frames_out), (6_000, 6_000));
        assert_eq!(passed.bytes_in, 3 * all.len() as u64);
        assert_eq!((passed.frames(), passed.since(&passed).frames()), (12_000, 0));
    }
    assert_eq!(relay.waiting(), 0);
    drop(relay);
    assert!(!relay_at.exists(), "its socket goes with it");
}

/// The second request is on its way before the first has arrived.
#[test]
fn many_frames_are_under_way_at_once() {
    let (relay, mut client, mut server) = connected(Duration::from_millis(100));
    // A machine may stop the relay for longer than the delay, but not 50 times in a row.
    let is_overlapping = (0..50).any(|_| {
        let seen = relay.watch();
        client.write_all(&frame(1)).unwrap();
        let first_is_in = (0..5_000).any(|_| {
            std::thread::yield_now();
            relay.waiting() > 0
        });
        client.write_all(&frame(2)).unwrap();
        let mut heard = vec![0; frame(1).len() + frame(2).len()];
        server.read_exact(&mut heard).unwrap();
        let first = seen.recv().unwrap();
        assert!(first.left - first.came >= Duration::from_millis(50));
        assert!(first.is_in && (first.door, first.connection) == (0, 1));
        if !first_is_in || first.bytes.len() > frame(1).len() {
            return false;
        }
        let second = seen.recv().unwrap();
        assert!(
            second.left >= first.left && second.left - second.came >= Duration::from_millis(50)
        );
        second.came < first.left
    });
    assert!(is_overlapping);
}

#[test]
fn who_sends_too_much_waits_and_loses_nothing() {
    let (relay, client, mut server) = connected(Duration::from_millis(1));
    client.set_nonblocking(true).unwrap();
    let piece: Vec<u8> = (0..65_536_u32).map(|at| at as u8).collect();
    let (mut sent, mut idle) = (0, 0);
    let begun = Instant::now();
    // Writes until no byte is taken for a second. Then the sockets are full, and the relay holds no
    // more than its limit.
    while idle < 100 || (sent <= QUEUE_MAX && begun.elapsed() < Duration::from_secs(120)) {
        match (&client).write(&piece[sent % piece.len()..]) {
            Ok(count) => (sent, idle) = (sent + count, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                idle += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 1 << 30, "it takes everything");
    }
    assert!(sent > QUEUE_MAX && relay.waiting() < QUEUE_MAX as u64 + (1 << 20));
    client.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    server.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), sent);
    assert!(all.chunks(piece.len()).all(|chunk| chunk == &piece[..chunk.len()]));
}

#[test]
fn an_end_comes_behind_the_last_byte_and_leaves_the_other_direction() {
    let (_relay, mut client, mut server) = connected(Duration::from_millis(2));
    client.write_all(b"the last words").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    server.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "the last words");
    server.write_all(b"an answer all the same").unwrap();
    drop(server);
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "an answer all the same");
}

#[test]
fn a_server_may_come_later_and_everything_ends_with_the_relay() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("server");
    let door = Door { listen: Place::Tcp(ANY.into()), to: Place::Unix(at.clone()) };
    let relay = Relay::start(vec![door], Duration::ZERO).unwrap();
    let mut early = TcpStream::connect(address(&relay, 0)).unwrap();
    assert!(matches!(early.read(&mut [0]), Ok(0) | Err(_)));
    let listener = UnixListener::bind(&at).unwrap();
    let mut client = TcpStream::connect(address(&relay, 0)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"x").unwrap();
    server.read_exact(&mut [0]).unwrap();
    drop(relay);
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    assert!(matches!(server.read(&mut [0]), Ok(0) | Err(_)));
}
