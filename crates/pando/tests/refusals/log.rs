//! Senders of invalid frames, and connections without a valid greeting or key. The server closes
//! the connection, its log names the sender and the reason, and other clients do not notice.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pando_keys::Bundle;
use pando_net::{Keys, Opened, Outbound, Stream, open};
use pando_server::Folder;
use pando_types::Credentials;
use pando_types::ShardIndex;
use pando_types::op::{Head, Op, Request};
use pando_wire::{
    Ask, Decoder, FEATURES_NEEDED, HEADER_LEN, Hello, Message, Refused, Role, Told, VERSION, encode,
};

use crate::Guarded;
use crate::common::site::{Site, until};

/// A time longer than any wait of these tests.
const LONG: Duration = Duration::from_secs(60);

/// What a sender sends, and what the log must say.
struct Case {
    sends: Vec<u8>,
    /// Whether the sender closes its side after that.
    ends: bool,
    logged: String,
}

impl Case {
    fn new(sends: impl Into<Vec<u8>>, logged: impl Into<String>) -> Self {
        Self { sends: sends.into(), ends: false, logged: logged.into() }
    }

    fn then_ends(self) -> Self {
        Self { ends: true, ..self }
    }
}

fn framed(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, pando_wire::Stream(1), message);
    bytes
}

/// A frame with the byte at `at` changed and a correct checksum.
fn sealed(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    frame[at] = byte;
    let checksum = crc32c::crc32c(&frame[8..]);
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
    frame
}

/// A frame with this length in its header.
fn of_length(mut frame: Vec<u8>, length: u32) -> Vec<u8> {
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame
}

/// Frames that are invalid from any sender, where at most `most` bytes are allowed.
fn no_frames(good: &[u8], most: u32) -> Vec<Case> {
    let good = good.to_vec();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let shorter = good[..good.len() - 1].to_vec();
    let kind = shorter[9];
    let body_is_cut = of_length(shorter, (good.len() - 5) as u32);
    vec![
        Case::new(flipped, "a frame whose checksum is wrong"),
        Case::new(
            of_length(good.clone(), most + 1),
            format!("a frame of {} bytes; from 16 to {most} are allowed", most + 1),
        ),
        Case::new(of_length(good.clone(), u32::MAX), "a frame of 4294967295 bytes"),
        Case::new(of_length(good.clone(), 15), "a frame of 15 bytes"),
        Case::new(
            sealed(good.clone(), 8, VERSION + 1),
            format!("a frame of version {}; this is version {VERSION}", VERSION + 1),
        ),
        Case::new(sealed(good.clone(), 9, 99), "a frame of unknown kind 99"),
        Case::new(sealed(good.clone(), 10, 1), "a frame with unknown flags 0x0001"),
        Case::new(
            sealed(body_is_cut, 9, kind),
            format!("a frame of kind {kind} whose body is malformed"),
        ),
        Case::new(&good[..good.len() - 1], "ended in the middle of a frame").then_ends(),
        Case::new(&good[..3], "ended in the middle of a frame").then_ends(),
    ]
}

/// Further invalid beginnings of a connection.
fn no_beginnings(volume: [u8; 16]) -> Vec<Case> {
    let hello = Hello::new(volume, Role::Client(ShardIndex(0)), Vec::new());
    let said = |hello: Hello| framed(&hello.into());
    let future = Hello { oldest: VERSION + 1, newest: VERSION + 2, ..hello.clone() };
    vec![
        // These are the bytes of `GET `, read as a length.
        Case::new(&b"GET / HTTP/1.1\r\n\r\n"[..], "a frame of 542393671 bytes"),
        Case::new(
            said(future),
            format!(
                "versions {} to {} of the protocol, this server {VERSION}",
                VERSION + 1,
                VERSION + 2
            ),
        ),
        Case::new(
            said(Hello { features: FEATURES_NEEDED - 1, ..hello.clone() }),
            format!(
                "has feature level {}, this server needs at least {FEATURES_NEEDED}",
                FEATURES_NEEDED - 1
            ),
        ),
        Case::new(
            said(Hello { volume: [9; 16], ..hello.clone() }),
            format!(
                "asks for volume 09090909-0909-0909-0909-090909090909, this is {}",
                pando_wire::uuid(&volume)
            ),
        ),
        Case::new(framed(&Message::Ask(Ask::Hosts)), "does not begin with a greeting"),
    ]
}

impl Guarded {
    fn volume(&self) -> [u8; 16] {
        Folder::new(&self.site.folder).unwrap().read().unwrap().id()
    }

    /// Waits for a line of the log that names this address and has these words.
    fn is_logged(&self, from: &SocketAddr, words: &str) {
        let named = format!("from {from}");
        let is_it = |line: &str| {
            let rest = line.split_once(&named).map(|(_, rest)| rest);
            rest.is_some_and(|rest| rest.starts_with([':', ' ']) && rest.contains(words))
        };
        until(&format!("{named}: {words}"), || self.site.log().lines().any(is_it));
    }

    /// Repeats `again` until a line of the log has these words. Strangers cause only one line per
    /// second.
    fn is_logged_once(&self, words: &str, mut again: impl FnMut()) {
        let lines = self.site.log().lines().count();
        until(words, || {
            again();
            self.site.log().lines().skip(lines).any(|line| line.contains(words))
        });
    }
}

/// Sends bytes, and waits until the connection ends.
fn says(mut stranger: impl Read + Write, sends: &[u8], end: impl FnOnce()) {
    stranger.write_all(sends).unwrap();
    end();
    match stranger.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn a_connection_that_begins_wrongly_is_closed_and_the_log_says_why() {
    let guarded = Guarded::new();
    let volume = guarded.volume();
    let hello = Hello::new(volume, Role::Client(ShardIndex(0)), Vec::new());
    let mut cases = no_frames(&framed(&hello.clone().into()), pando_wire::FIRST_FRAMES_MAX);
    cases.extend(no_beginnings(volume));
    let socket = Folder::new(&guarded.site.folder).unwrap().server_socket(0);
    for Case { sends, ends, logged } in cases {
        guarded.is_logged_once(&logged, || {
            let stranger = UnixStream::connect(&socket).unwrap();
            stranger.set_read_timeout(Some(LONG)).unwrap();
            let other = stranger.try_clone().unwrap();
            says(stranger, &sends, || {
                if ends {
                    other.shutdown(Shutdown::Write).unwrap();
                }
            });
        });
        guarded.others_go_on();
    }
    // Over TCP the server understands nothing but TLS.
    for sends in [framed(&hello.into()), b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        guarded.is_logged_once("it does not speak TLS", || {
            let stranger = TcpStream::connect(&guarded.address).unwrap();
            stranger.set_read_timeout(Some(LONG)).unwrap();
            says(stranger, &sends, || {});
        });
        guarded.others_go_on();
    }
}

#[test]
fn a_connection_that_sends_nonsense_later_is_closed_and_the_log_says_why() {
    let guarded = Guarded::new();
    let ask = framed(&Message::Ask(Ask::Hosts));
    let request = framed(&Message::Request(Request {
        head: Head::default(),
        credentials: Credentials::ROOT,
        op: Op::StatFs(ShardIndex(0)),
        trail: None,
    }));
    assert!(ask.len() > HEADER_LEN && request.len() > HEADER_LEN);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut strangers = Vec::new();
    for (role, good, most, out_of_turn, reason) in [
        (Role::Client(ShardIndex(0)), &request, 1 << 20, &ask, "a client sends requests only"),
        (Role::Tool, &ask, 64 << 10, &request, "a tool asks questions only"),
        (
            Role::Peer(ShardIndex(0), Vec::new()),
            &request,
            16 << 20,
            &request,
            "shards send messages to shards only",
        ),
    ] {
        let mut cases = no_frames(good, most);
        cases.push(Case::new(&out_of_turn[..], reason));
        for case in cases {
            strangers.push(runtime.block_on(is_shut_out(&guarded, role.clone(), &case)));
            guarded.others_go_on();
        }
    }
}

/// Opens a valid connection, then sends something invalid.
async fn is_shut_out(guarded: &Guarded, role: Role, case: &Case) -> Opened {
    let keys = Folder::new(&guarded.site.folder).unwrap().keys();
    let keys = Keys::new(&Bundle::read(&keys.join("server.pem")).unwrap()).unwrap();
    let stream = Stream::connect(&guarded.address.parse().unwrap()).await.unwrap();
    let Stream::Tcp(tcp) = &stream else { unreachable!() };
    let from = tcp.local_addr().unwrap();
    let mut opened = open(stream, guarded.volume(), role, Some(&keys)).await.unwrap();
    let out = Outbound::new(&mut opened.inbound);
    // The socket takes these few bytes at once.
    out.append(|bytes| bytes.extend_from_slice(&case.sends));
    out.flush();
    assert_eq!(out.waiting(), 0);
    if case.ends {
        opened.inbound.stream().shut();
    }
    guarded.is_logged(&from, &case.logged);
    let mut buffer = vec![0; 4096];
    let heard = tokio::time::timeout(LONG, opened.inbound.message(&mut buffer)).await;
    assert!(heard.expect("it is closed").is_err(), "{}", case.logged);
    opened
}

/// A holder of a key may send any number of questions that the key does not allow.
#[test]
fn a_peer_that_is_refused_answers_fills_no_log() {
    const ASKED: usize = 1000;
    let guarded = Guarded::new();
    let keys = Keys::new(&Bundle::read(&guarded.key).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begun = Instant::now();
    runtime.block_on(async {
        let stream = Stream::connect(&guarded.address.parse().unwrap()).await.unwrap();
        let mut opened = open(stream, guarded.volume(), Role::Tool, Some(&keys)).await.unwrap();
        let (out, mut buffer) = (Outbound::new(&mut opened.inbound), vec![0; 4096]);
        for _ in 0..ASKED {
            out.append(|bytes| bytes.extend(framed(&Message::Ask(Ask::Superblock))));
            out.flush();
            let heard = tokio::time::timeout(LONG, opened.inbound.message(&mut buffer)).await;
            let told = heard.expect("it is answered").unwrap().1;
            assert!(matches!(told, Message::Told(Told::Failed(_))), "{told:?}");
        }
    });
    let may_be = 64 + begun.elapsed().as_secs() as usize + 1;
    let said = guarded.site.log().lines().filter(|line| line.contains("did not answer")).count();
    assert!((1..=may_be).contains(&said), "{said} lines, and {may_be} may be");
    // The log tells how many lines were left out.
    until("the rest is counted", || {
        guarded.site.log().lines().any(|line| line.contains(" more connections were closed"))
    });
    guarded.others_go_on();
}

/// Connects as another user, in a thread of its own, sends a greeting, and returns the answer.
fn hears_as(user: u32, socket: PathBuf, hello: Vec<u8>) -> Option<Message> {
    let speaks = move || {
        let uid = rustix::process::Uid::from_raw(user);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        match stream.write_all(&hello) {
            // The server had refused the connection before the greeting came, and has said so.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
        let (mut decoder, mut buffer) = (Decoder::new(), [0; 4096]);
        loop {
            if let Some((_, message)) = decoder.message().unwrap() {
                return Some(message);
            }
            match stream.read(&mut buffer).unwrap() {
                0 => return None,
                count => decoder.feed(&buffer[..count]),
            }
        }
    };
    std::thread::spawn(speaks).join().unwrap()
}

#[test]
fn over_a_unix_socket_only_root_and_the_folders_owner_come_in_whatever_modes_say() {
    const OWNER: u32 = 1001;
    let mut site = Site::new(&[], &[]);
    let folder = Folder::new(&site.folder).unwrap();
    let (run, socket) = (folder.run(), folder.server_socket(0));
    fs::create_dir_all(&run).unwrap();
    // The owner of the socket's folder need not be the user of the server.
    chown(&run, Some(OWNER), None).unwrap();
    site.serve("all", &[]);
    for path in [site.scratch(), &site.folder, &run] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let hello = Hello::new(folder.read().unwrap().id(), Role::Tool, Vec::new());
    let hello = framed(&hello.into());
    let heard = [0, OWNER, OWNER + 1].map(|user| hears_as(user, socket.clone(), hello.clone()));
    assert!(matches!(heard[0], Some(Message::Challenge(_))), "{heard:?}");
    assert!(matches!(heard[1], Some(Message::Challenge(_))), "{heard:?}");
    assert_eq!(heard[2], Some(Message::Refused(Refused::NotOwner(OWNER + 1))));
}
