//! A server and the connections that come to it, over real sockets. Every wait has a deadline.

mod batches;
mod ends;
mod frames;
mod handshake;
mod keys;
mod limits;
mod order;
mod peers;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use pando_keys::{Authority, Bundle, KeyRole, KeysFolder, Wanted};
use pando_net::{HandshakeError, Inbound, Keys, Opened, Outbound, Stream, open};
use pando_server::host::{HostOptions, format_shard};
use pando_server::net::{Limits, Server, ServerOptions, StartError};
use pando_server::{Folder, Host, Superblock};
use pando_types::op::{Head, Op, Request, RequestId};
use pando_types::reply::{Body, Reply};
use pando_types::{Credentials, DirRef, Name, SessionId, ShardIndex};
use pando_wire::{Address, Message, Role, Told, encode_request};

/// Longest time that a test waits. Nothing takes this long.
const LONG: Duration = Duration::from_secs(60);

/// A volume on disk.
struct Volume {
    temp: tempfile::TempDir,
    folder: Folder,
    superblock: Superblock,
    keys: KeysFolder,
}

/// A client's key of this name. Tests change its fields for other keys.
fn wanted(name: &str) -> Wanted {
    Wanted {
        role: KeyRole::Client,
        name: name.to_owned(),
        read_only: false,
        squash: None,
        days: 30,
        addresses: Vec::new(),
    }
}

impl Volume {
    fn new(shards: u16) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::new(&temp.path().join("volume")).unwrap();
        let superblock = Superblock::new(shards, 1).unwrap();
        folder.format(&superblock, |shard, path| format_shard(&superblock, shard, path)).unwrap();
        let keys = KeysFolder::create(&folder.keys(), superblock.id()).unwrap();
        Self { temp, folder, superblock, keys }
    }

    fn authority(&self) -> Authority {
        self.keys.authority(None).unwrap()
    }

    /// Issues a key.
    fn issue(&self, wanted: &Wanted) -> Keys {
        Keys::new(&self.keys.issue(&self.authority(), wanted).unwrap()).unwrap()
    }

    /// The volume's own key of a role.
    fn own(&self, role: KeyRole) -> Keys {
        Keys::new(&Bundle::read(&self.keys.own(role)).unwrap()).unwrap()
    }

    fn options(&self, first: u16) -> ServerOptions {
        ServerOptions {
            volume: self.superblock.id(),
            listen: vec![
                Address::Unix(self.folder.server_socket(first)),
                Address::Tcp("127.0.0.1".to_owned(), 0),
            ],
            also: Vec::new(),
            advertise: Vec::new(),
            only_advertised: false,
            keys: Some(
                Keys::of_folder(
                    &Bundle::read(&self.keys.own(KeyRole::Server)).unwrap(),
                    self.keys.path(),
                )
                .unwrap(),
            ),
            limits: Limits::default(),
            run: self.folder.run(),
            join: Vec::new(),
        }
    }

    fn serve(&self, shards: &[u16], options: ServerOptions) -> Served {
        self.try_serve(shards, options).unwrap()
    }

    fn try_serve(&self, shards: &[u16], options: ServerOptions) -> Result<Served, StartError> {
        let hosted: Vec<_> = shards.iter().map(|&shard| ShardIndex(shard)).collect();
        let (host, _) =
            Host::start(&self.folder, &self.superblock, &HostOptions::default(), &hosted).unwrap();
        let host = Arc::new(host);
        let answer = |_| -> pando_server::net::Answer {
            Arc::new(|_, _| Told::Failed("not in this test".to_owned()))
        };
        let server = Server::start(host.clone(), options, answer)?;
        Ok(Served { server, host, volume: self.superblock.id(), admin: self.own(KeyRole::Admin) })
    }
}

/// A server that runs.
struct Served {
    server: Server,
    host: Arc<Host>,
    volume: [u8; 16],
    admin: Keys,
}

impl Served {
    fn unix(&self) -> Address {
        self.server.addresses()[0].clone()
    }

    fn tcp(&self) -> Address {
        self.server.addresses()[1].clone()
    }

    /// A counter of shard 0 and its shell.
    fn counter(&self, name: &str) -> u64 {
        self.host.status()[0].counters[name]
    }

    async fn client(&self, address: &Address) -> Client {
        Client::of(self.dial(address, Some(&self.admin)).await.unwrap())
    }

    async fn dial(&self, address: &Address, keys: Option<&Keys>) -> Result<Opened, HandshakeError> {
        self.dial_as(address, keys, Role::Client(ShardIndex(0))).await
    }

    async fn dial_as(
        &self,
        address: &Address,
        keys: Option<&Keys>,
        role: Role,
    ) -> Result<Opened, HandshakeError> {
        let stream = Stream::connect(address).await.unwrap();
        open(stream, self.volume, role, keys).await
    }
}

fn request(id: RequestId, op: Op) -> Request {
    Request {
        head: Head { id, ..Head::default() },
        credentials: Credentials::ROOT,
        op,
        trail: None,
    }
}

/// Makes a directory of this name in the root.
fn mkdir(name: &str) -> Op {
    Op::Mkdir(DirRef::ROOT, Name::new(name.as_bytes()).unwrap(), 0o755)
}

/// Opens a session at shard 0.
async fn open_session(served: &Served) -> SessionId {
    let opening = served.host.call(ShardIndex(0), request(RequestId::default(), Op::OpenSession));
    match within(opening).await.unwrap().result {
        Ok(Body::Session(session)) => session,
        other => panic!("{other:?}"),
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.stop();
        self.host.stop();
    }
}

/// A client's connection, in the current runtime.
struct Client {
    inbound: Inbound,
    out: Arc<Outbound>,
}

impl Client {
    fn of(mut opened: Opened) -> Self {
        let out = Arc::new(Outbound::new(&mut opened.inbound));
        // Writes what the socket does not take at once.
        let driven = out.clone();
        tokio::spawn(async move { driven.drive().await });
        Self { inbound: opened.inbound, out }
    }

    fn send(&self, stream: u64, op: Op) {
        self.send_as(stream, request(RequestId::default(), op));
    }

    fn send_as(&self, stream: u64, request: Request) {
        self.out.append(|bytes| encode_request(bytes, pando_wire::Stream(stream), &request));
        self.out.flush();
    }

    /// The next reply. `None`: the server has ended the connection.
    async fn reply(&mut self) -> Option<(u64, Reply)> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match within(self.inbound.message(&mut buffer)).await {
                Ok((stream, Message::Reply(reply))) => return Some((stream.0, reply)),
                // The server sends this unasked.
                Ok((_, Message::Revoked(_))) => {}
                Ok(other) => panic!("{other:?}"),
                Err(_) => return None,
            }
        }
    }

    /// Stream numbers of the replies that have come and were not taken.
    fn at_hand(&mut self) -> Vec<u64> {
        let (mut buffer, mut streams) = (vec![0; 64 << 10], Vec::new());
        loop {
            while let Some((stream, _)) = self.inbound.next_message().unwrap() {
                streams.push(stream.0);
            }
            if !self.inbound.fill_now(&mut buffer).unwrap() {
                return streams;
            }
        }
    }

    /// Sends a harmless request. Answers whether the right reply came.
    async fn works(&mut self) -> bool {
        self.send(77, Op::StatFs(ShardIndex(0)));
        self.reply().await.is_some_and(|(stream, reply)| stream == 77 && reply.result.is_ok())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.out.close();
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it takes for ever")
}

/// Runs a test's body on a runtime of its own.
fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(within(body));
}

/// Waits until the condition holds.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
