//! Which keys are admitted over TCP, and what each may do.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use pando_keys::{Authority, Bundle, IfInUse, KeyRole, KeysFolder, Squash, Wanted};
use pando_net::tls::{Denial, TlsError};
use pando_net::{HandshakeError, Inbound, Keys, Outbound, Stream};
use pando_server::net::StartError;
use pando_types::op::{Op, RequestId};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Epoch, Errno, Judge, Order, SessionId, SetAttr, ShardIndex};
use pando_wire::{Address, Hello, Hosting, Message, Refused, Role, encode};
use time::OffsetDateTime;

use crate::{Client, Served, Volume, mkdir, request, run, until, wanted, within};

fn keys(bundle: &Bundle) -> Keys {
    Keys::new(bundle).unwrap()
}

/// The error that this key gets over TCP. `None`: it is admitted.
async fn told(served: &Served, keys: Option<&Keys>) -> Option<HandshakeError> {
    match served.dial(&served.tcp(), keys).await {
        Ok(opened) => {
            assert!(Client::of(opened).works().await);
            None
        }
        Err(error) => Some(error),
    }
}

/// Checks that the error is a TLS alert with these words.
fn is_alert(error: Option<HandshakeError>, words: &str) {
    let error = error.expect("it is not let in");
    assert!(matches!(error, HandshakeError::Tls(TlsError::Alert(_))), "{error:?}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn each_key_is_judged_by_its_authority_its_time_and_its_volume() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let (authority, id) = (volume.authority(), served.volume);
    let other = Authority::create(id).unwrap();
    let with_roots_of = |mut bundle: Bundle, authority: &Authority| {
        bundle.authorities = vec![authority.certificate().clone()];
        keys(&bundle)
    };
    run(async {
        for role in [KeyRole::Client, KeyRole::Admin, KeyRole::Server] {
            let key = keys(&authority.issue(&Wanted { role, ..wanted("ada") }).unwrap());
            assert!(told(&served, Some(&key)).await.is_none(), "{role}");
        }
        // A process that may open the socket's file needs no key.
        assert!(served.dial(&served.unix(), None).await.is_ok());

        let none = told(&served, None).await.unwrap();
        assert!(matches!(none, HandshakeError::NoKey), "{none:?}");
        assert!(none.to_string().contains("--key"), "{none}");

        let stranger = with_roots_of(other.issue(&wanted("eve")).unwrap(), &authority);
        is_alert(told(&served, Some(&stranger)).await, "no authority of its volume");

        let long_ago = OffsetDateTime::now_utc() - Duration::from_secs(40 * 86_400);
        let expired = keys(&authority.issue_at(&wanted("old"), long_ago).unwrap());
        is_alert(told(&served, Some(&expired)).await, "has expired");

        let volume_of_another = Authority::create([9; 16]).unwrap();
        let of_another = volume_of_another.issue(&wanted("ada")).unwrap();
        let of_another = with_roots_of(of_another, &authority);
        let error = told(&served, Some(&of_another)).await.unwrap();
        let HandshakeError::Tls(TlsError::Peer(denial)) = &error else { panic!("{error:?}") };
        assert_eq!(*denial, Denial::OtherVolume(id));

        // A client refuses a server that has a key of another authority.
        let trusting_others = with_roots_of(authority.issue(&wanted("ada")).unwrap(), &other);
        let error = told(&served, Some(&trusting_others)).await.unwrap();
        let HandshakeError::Tls(TlsError::Peer(denial)) = &error else { panic!("{error:?}") };
        assert_eq!(*denial, Denial::UnknownAuthority);
    });
}

/// Answers one connection as a server would, with this key. `Ok` if the client took it for a
/// server.
async fn pose(bundle: &Bundle, client: &Keys) -> Result<(), HandshakeError> {
    use pando_net::{Listener, Reception, accept};
    let listener = Listener::bind(&Address::Tcp("127.0.0.1".to_owned(), 0)).await.unwrap();
    let (volume, server) = (client.identity().volume, keys(bundle));
    let address = listener.address().unwrap();
    let answers = tokio::spawn(async move {
        let accepted = listener.accept().await.unwrap();
        let reception = Reception { volume, keys: Some(&server) };
        let _ = accept::<()>(accepted, reception, |_, _| Err(Refused::Stopping)).await;
    });
    let stream = Stream::connect(&address).await.unwrap();
    let opened = pando_net::open(stream, volume, Role::Tool, Some(client)).await;
    answers.await.unwrap();
    match opened {
        Err(HandshakeError::Refused(Refused::Stopping)) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => panic!("it is not let in"),
    }
}

#[test]
fn only_a_servers_key_makes_a_server() {
    let volume = Volume::new(1);
    let authority = volume.authority();
    let client = keys(&authority.issue(&wanted("ada")).unwrap());
    run(async {
        let server = authority.issue(&Wanted { role: KeyRole::Server, ..wanted("s") }).unwrap();
        pose(&server, &client).await.unwrap();
        for role in [KeyRole::Client, KeyRole::Admin] {
            let other = authority.issue(&Wanted { role, ..wanted("eve") }).unwrap();
            let error = pose(&other, &client).await.unwrap_err();
            assert!(matches!(error, HandshakeError::Tls(TlsError::Peer(_))), "{role}: {error:?}");
        }
        // A server's key of another volume is refused, even if its authority is known.
        let elsewhere = Authority::create([9; 16]).unwrap();
        let other = elsewhere.issue(&Wanted { role: KeyRole::Server, ..wanted("s") }).unwrap();
        let mut bundle = authority.issue(&wanted("ada")).unwrap();
        bundle.authorities.push(elsewhere.certificate().clone());
        let error = pose(&other, &keys(&bundle)).await.unwrap_err();
        let HandshakeError::Tls(TlsError::Peer(denial)) = &error else { panic!("{error:?}") };
        assert_eq!(*denial, Denial::OtherVolume([9; 16]));
    });
    // A server does not start with a client's key, or with one of another volume.
    let start = |bundle: &Bundle| {
        let mut options = volume.options(0);
        options.keys = Some(keys(bundle));
        volume.try_serve(&[0], options).err().unwrap()
    };
    let error = start(&authority.issue(&wanted("ada")).unwrap());
    assert!(matches!(error, StartError::NotAServer(KeyRole::Client)), "{error}");
    let other = Authority::create([9; 16]).unwrap();
    let error = start(&other.issue(&Wanted { role: KeyRole::Server, ..wanted("s") }).unwrap());
    assert!(matches!(error, StartError::OtherVolume(..)), "{error}");
}

#[test]
fn tcp_without_a_key_is_refused_at_the_start_on_this_machine_too() {
    let volume = Volume::new(1);
    for host in ["127.0.0.1", "0.0.0.0", "::1"] {
        let mut options = volume.options(0);
        options.keys = None;
        options.listen = vec![Address::Tcp(host.to_owned(), 0)];
        let error = volume.try_serve(&[0], options).err().unwrap();
        assert!(matches!(error, StartError::NoKey(_)), "{error}");
        assert!(error.to_string().contains("--key"), "{error}");
    }
    let mut options = volume.options(0);
    (options.keys, options.listen) = (None, vec![Address::Unix(volume.folder.server_socket(0))]);
    let served = volume.serve(&[0], options);
    run(async { assert!(served.client(&served.unix()).await.works().await) });
}

#[test]
fn plain_text_and_noise_are_refused_and_what_speaks_no_tls_is_known_for_it() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        // An older program, or an attacker: it gets the answer in plain text.
        let mut frame = Vec::new();
        let hello = Hello::new(served.volume, Role::Client(ShardIndex(0)), Vec::new());
        encode(&mut frame, pando_wire::Stream(0), &hello.into());
        let mut inbound = Inbound::new(Stream::connect(&served.tcp()).await.unwrap().into());
        let out = Outbound::new(&mut inbound);
        out.append(|bytes| bytes.extend(&frame));
        out.flush();
        let heard = within(inbound.message(&mut vec![0; 4096])).await.unwrap().1;
        assert_eq!(heard, Message::Refused(Refused::Plaintext));

        let noises = [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0x16, 3, 1, 0xff, 0xff, 1, 0, 0],
            &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0],
            &[0x17, 3, 3, 0, 20, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
            &[0xff; 100],
        ];
        for noise in noises {
            let Address::Tcp(host, port) = served.tcp() else { unreachable!() };
            let mut stream = std::net::TcpStream::connect((host.as_str(), port)).unwrap();
            // This is far below the time for a greeting: the connection ends at once, whatever was
            // sent.
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.write_all(noise).unwrap();
            match stream.read_to_end(&mut Vec::new()) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }

        // Another program listens there.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = tokio::spawn(async move {
            for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0, 0, 1, 0, 7, 7, 7, 7]] {
                let stream = Stream::Tcp(listener.accept().await.unwrap().0);
                stream.writable().await.unwrap();
                stream.try_write(answer).unwrap();
                stream.readable().await.unwrap();
            }
        });
        let address = Address::Tcp("127.0.0.1".to_owned(), port);
        for _ in 0..2 {
            let error = served.dial(&address, Some(&served.admin)).await.unwrap_err();
            assert!(matches!(error, HandshakeError::NotTls), "{error:?}");
        }
        answers.await.unwrap();
        assert!(served.client(&served.tcp()).await.works().await);
    });
}

#[test]
fn a_revoked_key_is_refused_and_what_it_has_open_is_cut() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let [ada, eve] = ["ada", "eve"].map(|name| volume.issue(&wanted(name)));
    run(async {
        let client = async |keys| Client::of(served.dial(&served.tcp(), Some(keys)).await.unwrap());
        let (mut good, mut bad) = (client(&ada).await, client(&eve).await);
        assert!(good.works().await && bad.works().await);
        volume.keys.revoke("eve").unwrap();
        // New connections are refused at once,
        is_alert(told(&served, Some(&eve)).await, "was revoked");
        // and existing ones end soon.
        assert!(bad.reply().await.is_none());
        until(|| served.server.connections() == 1).await;
        assert!(good.works().await);
        assert!(told(&served, Some(&ada)).await.is_none());
    });
}

#[test]
fn a_revoked_key_is_cut_also_while_no_key_can_be_trusted() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let [ada, eve] = ["ada", "eve"].map(|name| volume.issue(&wanted(name)));
    run(async {
        let client = async |keys| Client::of(served.dial(&served.tcp(), Some(keys)).await.unwrap());
        let (mut good, mut bad) = (client(&ada).await, client(&eve).await);
        assert!(good.works().await && bad.works().await);
        // The owner revokes the key in a copy of the folder. The server's own folder lacks a file
        // without which no new connection is admitted.
        let (own, copy) = (volume.folder.keys(), volume.temp.path().join("copy"));
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name()) {
            std::fs::copy(own.join(&file), copy.join(&file)).unwrap();
        }
        std::fs::remove_file(own.join("ca.crt")).unwrap();
        KeysFolder::open(&copy, volume.superblock.id()).unwrap().revoke("eve").unwrap();
        std::fs::copy(copy.join("revoked"), own.join("revoked")).unwrap();
        assert!(bad.reply().await.is_none());
        until(|| served.server.connections() == 1).await;
        assert!(good.works().await);
        assert!(served.dial(&served.tcp(), Some(&ada)).await.is_err());
    });
}

#[test]
fn two_authorities_count_while_one_takes_the_others_place() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let mut bundle = volume.keys.issue(&volume.authority(), &wanted("old")).unwrap();
    let old = keys(&bundle);
    let next = volume.keys.rotate(&volume.authority(), None).unwrap();
    let new = keys(&volume.keys.issue(&next, &wanted("new")).unwrap());
    run(async {
        assert!(told(&served, Some(&old)).await.is_none());
        assert!(told(&served, Some(&new)).await.is_none());
        let mut of_old = Client::of(served.dial(&served.tcp(), Some(&old)).await.unwrap());
        volume.keys.finish_rotation(IfInUse::End).unwrap();
        // This client still believes the server, which has the new authority. The server does not
        // believe the client.
        bundle.authorities = vec![next.certificate().clone()];
        is_alert(told(&served, Some(&keys(&bundle))).await, "no authority of its volume");
        assert!(of_old.reply().await.is_none(), "its key counts no more");
    });
}

#[test]
fn all_servers_hear_what_is_revoked_also_one_that_was_away() {
    let volume = Volume::new(3);
    let one = volume.serve(&[0], volume.options(0));
    // The servers have folders of their own, as on other machines: only servers tell each other.
    let elsewhere = |shard: u16, name: &str| {
        let mut options = volume.options(shard);
        let path = volume.temp.path().join(name);
        let run = path.join("run");
        std::fs::create_dir_all(&run).unwrap();
        let server = Wanted { role: KeyRole::Server, ..wanted(name) };
        let server = volume.keys.issue(&volume.authority(), &server).unwrap();
        KeysFolder::adopt(&path.join("keys"), &server).unwrap();
        options.keys = Some(Keys::of_folder(&server, &path.join("keys")).unwrap());
        options.listen =
            vec![Address::Unix(run.join("server.sock")), Address::Tcp("127.0.0.1".to_owned(), 0)];
        options.run = run;
        options.join = vec![one.tcp()];
        options
    };
    let eve = volume.issue(&wanted("eve"));
    let at = |served: &Served, shard: u16| {
        let (address, role) = (served.tcp(), Role::Client(ShardIndex(shard)));
        let (volume, eve) = (served.volume, eve.clone());
        async move {
            let stream = Stream::connect(&address).await.unwrap();
            pando_net::open(stream, volume, role, Some(&eve)).await.map(Client::of)
        }
    };
    let two = volume.serve(&[1], elsewhere(1, "two"));
    run(async {
        until(|| one.server.hosts().get(ShardIndex(1)).is_some()).await;
        let mut cut = at(&two, 1).await.unwrap();
        // What this server hears cannot be written for a while.
        let file = volume.temp.path().join("two/run/revoked");
        std::fs::create_dir(&file).unwrap();
        volume.keys.revoke("eve").unwrap();
        assert!(cut.reply().await.is_none(), "two has heard it");
        is_alert(at(&two, 1).await.err(), "was revoked");
        std::fs::remove_dir(&file).unwrap();
        until(|| file.is_file()).await;
        // The third server did not run when the key was revoked.
        let options = elsewhere(2, "three");
        let three = volume.serve(&[2], options.clone());
        let is_known = async || loop {
            match at(&three, 2).await {
                // The server heard of it before this handshake ended.
                Err(HandshakeError::Refused(Refused::KeyEnded(why))) => {
                    return assert_eq!(why, "it was revoked");
                }
                Err(error) => return is_alert(Some(error), "was revoked"),
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        is_known().await;
        drop(three);
        // The server has kept the serial number in its own file.
        let three =
            volume.serve(&[2], pando_server::net::ServerOptions { join: Vec::new(), ..options });
        is_alert(at(&three, 2).await.err(), "was revoked");
    });
}

#[test]
fn what_a_client_says_is_revoked_is_not_believed() {
    let volume = Volume::new(2);
    let served = volume.serve(&[0], volume.options(0));
    let [ada, admin] = [volume.issue(&wanted("ada")), volume.own(KeyRole::Admin)];
    run(async {
        let hosting = Hosting {
            shard: ShardIndex(1),
            epoch: Epoch(99),
            host: [1; 16],
            addresses: vec!["10.1.1.1:1".to_owned()],
        };
        ada.learn([admin.identity().serial]);
        for keys in [&ada, &admin] {
            let role = Role::Peer(ShardIndex(0), vec![hosting.clone()]);
            let error = served.dial_as(&served.tcp(), Some(keys), role).await.unwrap_err();
            assert!(matches!(error, HandshakeError::Refused(Refused::Key(_))), "{error:?}");
        }
        assert!(served.server.hosts().get(ShardIndex(1)).is_none());
        assert!(told(&served, Some(&admin)).await.is_none());
    });
}

/// A client with this key, and a session of its own.
async fn with_session(served: &Served, keys: &Keys) -> (Client, SessionId) {
    let mut client = Client::of(served.dial(&served.tcp(), Some(keys)).await.unwrap());
    client.send(1, Op::OpenSession);
    match client.reply().await.unwrap().1.result {
        Ok(Body::Session(session)) => (client, session),
        other => panic!("{other:?}"),
    }
}

/// Result of a request as root. The request says that the client's kernel has judged already.
async fn asked(
    (client, session): &mut (Client, SessionId),
    sequence: u64,
    op: Op,
) -> Result<Body, Refusal> {
    let id = RequestId { session: *session, slot: 0, sequence };
    let mut request = request(id, op);
    request.credentials.judge = Judge::Kernel;
    client.send_as(sequence, request);
    client.reply().await.expect("the connection goes on").1.result
}

#[test]
fn a_key_that_may_only_read_changes_nothing() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let reader = volume.issue(&Wanted { read_only: true, ..wanted("reader") });
    run(async {
        let mut reader = with_session(&served, &reader).await;
        let refused = asked(&mut reader, 1, mkdir("made")).await;
        assert_eq!(refused.unwrap_err(), Refusal::Errno(Errno::EROFS));
        // A refused request has not begun: its number can be used again, and all other requests go
        // on.
        assert!(reader.0.works().await);
        let list = Op::ReadDir { dir: DirRef::ROOT, from: Order(0), limit: 10 };
        assert!(asked(&mut reader, 0, list).await.is_ok());
        let mut writer = with_session(&served, &volume.issue(&wanted("writer"))).await;
        assert!(matches!(asked(&mut writer, 1, mkdir("made")).await, Ok(Body::Made(..))));
    });
}

#[test]
fn a_squashed_key_is_judged_as_the_user_that_it_acts_as() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let (uid, gid) = (1000, 1001);
    let keys = [("root", Squash::Root { uid, gid }), ("all", Squash::All { uid, gid })];
    let keys =
        keys.map(|(name, squash)| volume.issue(&Wanted { squash: Some(squash), ..wanted(name) }));
    run(async {
        let mut admin = with_session(&served, &served.admin).await;
        for (at, keys) in keys.iter().enumerate() {
            let close = SetAttr { mode: Some(0o755), ..SetAttr::default() };
            let closed = asked(&mut admin, 10 * at as u64 + 1, Op::DirSetAttr(DirRef::ROOT, close));
            assert!(closed.await.is_ok());
            let mut squashed = with_session(&served, keys).await;
            // The user of the key may not do this here, though the client's kernel has judged
            // otherwise.
            let refused = asked(&mut squashed, 1, mkdir(&format!("made-{at}"))).await;
            assert_eq!(refused.unwrap_err(), Refusal::Errno(Errno::EACCES));
            let open = SetAttr { mode: Some(0o777), ..SetAttr::default() };
            let refused = asked(&mut squashed, 2, Op::DirSetAttr(DirRef::ROOT, open.clone())).await;
            assert_eq!(refused.unwrap_err(), Refusal::Errno(Errno::EPERM));
            let opened = asked(&mut admin, 10 * at as u64 + 2, Op::DirSetAttr(DirRef::ROOT, open));
            assert!(opened.await.is_ok());
            let made = asked(&mut squashed, 3, mkdir(&format!("made-{at}"))).await;
            assert!(matches!(made, Ok(Body::Made(..))), "{made:?}");
        }
    });
}

/// Connects from an address of this machine: all of 127.0.0.0/8 belong to it.
fn connect_from(host: [u8; 4], to: &Address) -> std::net::TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let Address::Tcp(_, port) = to else { unreachable!() };
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &std::net::SocketAddr::from((host, 0))).unwrap();
    connect(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], *port))).unwrap();
    socket.into()
}

#[test]
fn a_flood_of_strangers_keeps_no_client_out() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let address = served.tcp();
    // This is far below the time for a greeting, after which each place becomes free by itself.
    let soon = Duration::from_secs(5);
    run(async {
        // Floods from one address, from few and from many: silent, or with the beginning of a
        // message.
        let floods: [&dyn Fn(u16) -> [u8; 4]; 3] =
            [&|_| [127, 0, 0, 1], &|n| [127, 0, 1, (n % 16) as u8], &|n| {
                [127, 1, (n >> 8) as u8, n as u8]
            }];
        for (at, source) in floods.into_iter().enumerate() {
            let strangers: Vec<_> = (0..700)
                .map(|number| {
                    let mut stranger = connect_from(source(number), &address);
                    if number % 2 == 0 {
                        stranger.write_all(&[0x16, 3, 1, 2, 0]).unwrap();
                    }
                    stranger
                })
                .collect();
            let come = async { told(&served, Some(&served.admin)).await };
            let told = tokio::time::timeout(soon, come).await;
            assert!(told.expect("it gets in at once").is_none(), "{at}");
            drop(strangers);
        }
    });
}
