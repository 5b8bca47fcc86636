//! Keys that end, while their connections begin and while they last.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use pando_keys::{IfInUse, KeyRole, KeysFolder, Serial, Wanted};
use pando_net::{HandshakeError, Keys, Stream};
use pando_server::net::StartError;
use pando_types::ShardIndex;
use pando_wire::{Address, Message, REVOKED_MAX, Refused, Role};
use time::OffsetDateTime;
use tokio::sync::oneshot;

use crate::{Client, Served, Volume, run, until, wanted, within};

/// Runs a relay between a client and a server. It passes the client's first bytes on, and holds the
/// server's first answer. `begun` fires when that answer has come. `go` makes the relay pass on
/// everything. The relay ends with the connection.
fn hold_up(
    to: Address,
    begun: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
) -> (Address, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let Address::Tcp(host, port) = to else { unreachable!() };
        let mut client = listener.accept().unwrap().0;
        let mut server = TcpStream::connect((host.as_str(), port)).unwrap();
        let mut buffer = vec![0; 16 << 10];
        let count = client.read(&mut buffer).unwrap();
        server.write_all(&buffer[..count]).unwrap();
        let count = server.read(&mut buffer).unwrap();
        begun.send(()).unwrap();
        go.blocking_recv().unwrap();
        client.write_all(&buffer[..count]).unwrap();
        let [mut from, mut to] = [&client, &server].map(|stream| stream.try_clone().unwrap());
        let there = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        let _ = std::io::copy(&mut server, &mut client);
        let _ = client.shutdown(Shutdown::Both);
        there.join().unwrap();
    });
    (Address::Tcp("127.0.0.1".to_owned(), port), thread)
}

/// Result of a handshake in the middle of which `happens` is called.
async fn interrupted(
    served: &Served,
    keys: &Keys,
    happens: impl FnOnce(),
) -> Result<(), HandshakeError> {
    let ((begun, has_begun), (go, gone)) = (oneshot::channel(), oneshot::channel());
    let (address, thread) = hold_up(served.tcp(), begun, gone);
    let (volume, keys) = (served.volume, keys.clone());
    let opening = tokio::spawn(async move {
        let stream = Stream::connect(&address).await.unwrap();
        pando_net::open(stream, volume, Role::Client(ShardIndex(0)), Some(&keys)).await
    });
    within(has_begun).await.unwrap();
    happens();
    go.send(()).unwrap();
    // Drops a connection that was opened, so that the relay ends.
    let opened = within(opening).await.unwrap().map(drop);
    within(tokio::task::spawn_blocking(move || thread.join().unwrap())).await.unwrap();
    opened
}

#[test]
fn a_handshake_that_was_begun_before_its_key_ended_is_judged_by_what_is_so_at_its_end() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let [ada, eve] = ["ada", "eve"].map(|name| volume.issue(&wanted(name)));
    run(async {
        assert!(interrupted(&served, &ada, || {}).await.is_ok());
        let is_ended = |opened: Result<(), HandshakeError>, why: &str| {
            let error = opened.expect_err("it is not let in");
            assert!(matches!(error, HandshakeError::Refused(Refused::KeyEnded(_))), "{error:?}");
            assert!(error.to_string().contains(why), "{error}");
        };
        let revoke = || drop(volume.keys.revoke("eve").unwrap());
        is_ended(interrupted(&served, &eve, revoke).await, "revoked");
        volume.keys.rotate(&volume.authority(), None).unwrap();
        let finish = || drop(volume.keys.finish_rotation(IfInUse::End).unwrap());
        is_ended(interrupted(&served, &ada, finish).await, "no authority");
        until(|| served.server.connections() == 0).await;
    });
}

#[test]
fn one_key_takes_its_part_of_the_connections_and_no_more() {
    let volume = Volume::new(2);
    let mut options = volume.options(0);
    (options.limits.connections, options.limits.connections_of_key) = (3, 2);
    let served = volume.serve(&[0], options);
    let [ada, eve] = ["ada", "eve"].map(|name| volume.issue(&wanted(name)));
    let dial = async |keys: &Keys| served.dial(&served.tcp(), Some(keys)).await;
    run(async {
        let mut held = vec![dial(&eve).await.unwrap(), dial(&eve).await.unwrap()];
        let error = dial(&eve).await.unwrap_err();
        assert!(matches!(error, HandshakeError::Refused(Refused::FullOfKey(2))), "{error}");
        assert!(error.to_string().contains("has 2 connections"), "{error}");
        // A renewed certificate of the holder counts as the same key.
        let renewed = volume.keys.renew(&volume.authority(), "eve", 30, Vec::new()).unwrap();
        let error = dial(&Keys::new(&renewed).unwrap()).await.unwrap_err();
        assert!(matches!(error, HandshakeError::Refused(Refused::FullOfKey(2))), "{error}");
        held.push(dial(&ada).await.unwrap());
        let error = dial(&ada).await.unwrap_err();
        assert!(matches!(error, HandshakeError::Refused(Refused::Full(3))), "{error}");
        // The volume's own keys have room, whatever clients do.
        let mut own = Vec::new();
        for _ in 0..3 {
            own.push(Client::of(dial(&served.admin).await.unwrap()));
        }
        for client in &mut own {
            assert!(client.works().await);
        }
        drop(own);
        let server = volume.own(KeyRole::Server);
        let role = Role::Peer(ShardIndex(0), Vec::new());
        until(|| served.server.connections() == 3).await;
        served.dial_as(&served.tcp(), Some(&server), role).await.unwrap();
        // A place that is given back can be taken again.
        held.remove(0);
        until(|| served.server.connections() == 2).await;
        assert!(Client::of(dial(&eve).await.unwrap()).works().await);
    });
}

#[test]
fn a_connection_ends_with_its_certificate() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let ada = volume.issue(&wanted("ada"));
    run(async {
        let mut other = Client::of(served.dial(&served.tcp(), Some(&ada)).await.unwrap());
        let day = Duration::from_secs(86_400);
        // On a slow machine the certificate may have expired before it is used.
        for left in (0..).map(|turn| Duration::from_secs(2 << turn)) {
            let issued = OffsetDateTime::now_utc() - day + left;
            let wanted = Wanted { days: 1, ..wanted("old") };
            let bundle = volume.authority().issue_at(&wanted, issued).unwrap();
            let old = Keys::new(&bundle).unwrap();
            let Ok(opened) = served.dial(&served.tcp(), Some(&old)).await else { continue };
            let mut old = Client::of(opened);
            if old.works().await {
                assert!(old.reply().await.is_none(), "it is cut");
                break;
            }
        }
        assert!(other.works().await);
    });
}

#[test]
fn a_change_of_authorities_cuts_the_keys_that_no_longer_count_and_no_others() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let client = async |name| {
            let keys = volume.issue(&wanted(name));
            let mut client = Client::of(served.dial(&served.tcp(), Some(&keys)).await.unwrap());
            assert!(client.works().await);
            client
        };
        let (mut ada, mut eve) = (client("ada").await, client("eve").await);
        // Once the server has cut this key, it has looked at the authorities, too.
        volume.keys.rotate(&volume.authority(), None).unwrap();
        volume.keys.revoke("eve").unwrap();
        assert!(eve.reply().await.is_none());
        assert!(ada.works().await, "its authority counts still");
        let mut bob = client("bob").await;
        volume.keys.finish_rotation(IfInUse::End).unwrap();
        assert!(ada.reply().await.is_none());
        assert!(bob.works().await);
    });
}

#[test]
fn clients_hear_what_is_revoked_when_they_come_and_while_they_are_there() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let [ada, bob, eve] = ["ada", "bob", "eve"].map(|name| volume.issue(&wanted(name)));
    let serial = |keys: &Keys| keys.identity().serial.0;
    run(async {
        volume.keys.revoke("bob").unwrap();
        let dial = async || served.dial(&served.tcp(), Some(&ada)).await.unwrap();
        let mut opened = dial().await;
        assert_eq!(opened.welcome.revoked, [serial(&bob)]);
        // The server serves the connection by then.
        until(|| served.server.connections() == 1).await;
        volume.keys.revoke("eve").unwrap();
        let mut heard = Vec::new();
        while !heard.contains(&serial(&eve)) {
            match within(opened.inbound.message(&mut vec![0; 4096])).await.unwrap().1 {
                Message::Revoked(more) => heard.extend(more),
                other => panic!("{other:?}"),
            }
        }
        let both = BTreeSet::from([serial(&bob), serial(&eve)]);
        assert_eq!(BTreeSet::from_iter(dial().await.welcome.revoked), both);
    });
}

/// Several pages would wait for each client, outside of all budgets.
#[test]
fn clients_that_would_have_to_hear_more_than_a_page_at_once_are_cut_and_hear_it_when_they_come_again()
 {
    let volume = Volume::new(2);
    let served = volume.serve(&[0], volume.options(0));
    let ada = volume.issue(&wanted("ada"));
    let server = volume.issue(&Wanted { role: KeyRole::Server, ..wanted("two") });
    let serials =
        |from: usize, to: usize| (from..to).map(|at| Serial((1 + at as u128).to_be_bytes()));
    run(async {
        let dial = async || served.dial(&served.tcp(), Some(&ada)).await.unwrap();
        let mut opened = dial().await;
        until(|| served.server.connections() == 1).await;
        server.learn(serials(0, REVOKED_MAX + 1));
        let role = Role::Peer(ShardIndex(0), Vec::new());
        let _peer = served.dial_as(&served.tcp(), Some(&server), role).await.unwrap();
        let heard = within(opened.inbound.message(&mut vec![0; 4096])).await;
        assert!(heard.is_err(), "it hears nothing and is cut");
        assert_eq!(dial().await.welcome.revoked.len(), REVOKED_MAX + 1);
    });
}

#[test]
fn what_was_heard_and_cannot_be_read_any_more_lets_no_server_start() {
    let volume = Volume::new(1);
    let path = volume.folder.run().join("revoked");
    fs::create_dir_all(volume.folder.run()).unwrap();
    let serial = Serial::random().unwrap();
    for (text, why) in [
        (String::new(), "its end is missing"),
        (serial.to_string(), "its end is missing"),
        (format!("{serial}\nada\n"), "line 2 is no serial number"),
        (format!("\n{serial}\n"), "line 1 is no serial number"),
    ] {
        fs::write(&path, text).unwrap();
        let error = volume.try_serve(&[0], volume.options(0)).err().expect(why);
        assert!(matches!(error, StartError::Revoked { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(why) && error.contains(path.to_str().unwrap()), "{error}");
    }
    // The file cannot be read at all.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = volume.try_serve(&[0], volume.options(0)).err().unwrap();
    assert!(matches!(error, StartError::Revoked { .. }), "{error}");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, format!("{serial}\n")).unwrap();
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let ada = volume.issue(&wanted("ada"));
        let opened = served.dial(&served.tcp(), Some(&ada)).await.unwrap();
        assert_eq!(opened.welcome.revoked, [serial.0]);
    });
}

/// Each server of a folder writes what it has heard, and keeps what others have written.
#[test]
fn what_others_have_heard_stays_written() {
    let volume = Volume::new(2);
    let one = volume.serve(&[0], volume.options(0));
    let path = volume.temp.path().join("run-of-two");
    fs::create_dir(&path).unwrap();
    let serial = Serial::random().unwrap();
    let keys = volume.temp.path().join("keys-of-two");
    let server = Wanted { role: KeyRole::Server, ..wanted("two") };
    let server = volume.keys.issue(&volume.authority(), &server).unwrap();
    KeysFolder::adopt(&keys, &server).unwrap();
    let mut options = volume.options(1);
    options.keys = Some(Keys::of_folder(&server, &keys).unwrap());
    options.listen = vec![Address::Unix(path.join("s.sock"))];
    (options.run, options.join) = (path.clone(), vec![one.tcp()]);
    let _two = volume.serve(&[1], options);
    let file = path.join("revoked");
    fs::write(&file, format!("{serial}\n")).unwrap();
    // The folder may belong to another user. That user's link must not lead root's server to
    // another file.
    let [victim, link] =
        ["victim", &format!("revoked.new-{}", std::process::id())].map(|name| path.join(name));
    fs::write(&victim, "kept").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let eve = volume.issue(&wanted("eve")).identity().serial;
    volume.keys.revoke("eve").unwrap();
    run(async {
        let text = || fs::read_to_string(&file).unwrap();
        until(|| text().contains(&eve.to_string())).await;
        assert!(text().contains(&serial.to_string()));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    });
}
