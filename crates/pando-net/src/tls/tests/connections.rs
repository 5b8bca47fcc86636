//! Connections over TCP with real keys.

use std::sync::Arc;

use pando_keys::{Authority, Bundle, KeyRole, KeysFolder, Serial, Wanted};
use pando_types::{Epoch, ShardIndex};
use pando_wire::{
    Address, Hello, Message, REVOKED_IN_ALL_MAX, REVOKED_MAX, Refused, Role, Told, Welcome, encode,
};

use crate::{
    Accepts, Belief, Closed, HandshakeError, Inbound, Keys, Listener, Opened, Outbound, Proof,
    READ_MAX, Reception, Stream, accept, open,
};

const VOLUME: [u8; 16] = [7; 16];

fn wanted(role: KeyRole) -> Wanted {
    let (name, read_only, squash) = (role.to_string(), false, None);
    Wanted { role, name, read_only, squash, days: 30, addresses: Vec::new() }
}

fn issue(authority: &Authority, role: KeyRole) -> Bundle {
    authority.issue(&wanted(role)).unwrap()
}

fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let within = tokio::time::timeout(std::time::Duration::from_secs(60), body);
        within.await.expect("it takes for ever");
    });
}

/// Both ends of one connection.
async fn connected() -> (Inbound, Opened) {
    let authority = Authority::create(VOLUME).unwrap();
    let keys = |role| Keys::new(&issue(&authority, role)).unwrap();
    let (server, client) = (keys(KeyRole::Server), keys(KeyRole::Client));
    let (inbound, opened, proof) = met(&server, &client, Role::Tool).await;
    assert_eq!(proof.who.role(), KeyRole::Client);
    assert_eq!(proof.who.key(), client.identity().key);
    (inbound, opened)
}

/// Both ends of one connection, and the client's proof. The server learns what it is told, and
/// tells what it knows.
async fn met(server: &Keys, client: &Keys, role: Role) -> (Inbound, Opened, Proof) {
    let listener = Listener::bind(&Address::Tcp("127.0.0.1".to_owned(), 0)).await.unwrap();
    let (address, server) = (listener.address().unwrap(), server.clone());
    let admitted = tokio::spawn(async move {
        let accepted = listener.accept().await.unwrap();
        let admit = |hello: &Hello, proof: &Proof| -> Result<(Welcome, Proof), Refused> {
            let (hosts, revoked) = (Vec::new(), server.told_revoked());
            server.learn(hello.revoked.iter().map(|serial| Serial(*serial)));
            Ok((Welcome { epoch: Epoch(1), in_flight: 1, hosts, revoked }, proof.clone()))
        };
        accept(accepted, Reception { volume: VOLUME, keys: Some(&server) }, admit).await.unwrap()
    });
    let stream = Stream::connect(&address).await.unwrap();
    let opened = open(stream, VOLUME, role, Some(client)).await.unwrap();
    let (inbound, _, proof) = admitted.await.unwrap();
    (inbound, opened, proof)
}

/// A message of about `length` bytes, different for each number.
fn question(number: u64, length: usize) -> Message {
    Message::Told(Told::Json(format!("{number} {}", "x".repeat(length))))
}

fn append(out: &Outbound, number: u64, length: usize) {
    out.append(|bytes| encode(bytes, pando_wire::Stream(number), &question(number, length)));
}

/// All messages arrive, in order and unchanged.
async fn hears(inbound: &mut Inbound, count: u64, length: impl Fn(u64) -> usize) {
    let mut buffer = vec![0; READ_MAX];
    for number in 0..count {
        let (stream, message) = inbound.message(&mut buffer).await.unwrap();
        assert_eq!(stream.0, number);
        assert!(message == question(number, length(number)), "{number}");
    }
}

#[test]
fn batches_of_any_length_arrive_in_both_directions_at_once_while_keys_change() {
    const COUNT: u64 = 2000;
    run(async {
        let (mut here, mut there) = connected().await;
        there.inbound.welcome();
        let length = |number: u64| (number as usize * 7919) % 50_000;
        for sealer in [here.sealer().unwrap(), there.inbound.sealer().unwrap()] {
            sealer.update_after = 50;
        }
        let outs = [Outbound::new(&mut here), Outbound::new(&mut there.inbound)].map(Arc::new);
        for out in &outs {
            let driven = out.clone();
            tokio::spawn(async move { driven.drive().await });
        }
        let writers = outs.clone().map(|out| {
            // From another thread than the one that reads.
            std::thread::spawn(move || {
                for number in 0..COUNT {
                    append(&out, number, length(number));
                    if number % 5 == 0 {
                        out.flush();
                    }
                }
                out.flush();
            })
        });
        let (mut one, mut two) = (here, there.inbound);
        let both = [
            tokio::spawn(async move { hears(&mut one, COUNT, length).await }),
            tokio::spawn(async move { hears(&mut two, COUNT, length).await }),
        ];
        for reader in both {
            reader.await.unwrap();
        }
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

#[test]
fn what_is_appended_before_one_flush_is_one_write() {
    run(async {
        let (mut here, mut there) = connected().await;
        let writes: Arc<std::sync::atomic::AtomicU64> = Arc::default();
        let out = Outbound::counted(&mut there.inbound, writes.clone());
        for number in 0..100 {
            append(&out, number, 100);
        }
        // An append of nothing sends nothing.
        out.append(|_| {});
        out.flush();
        assert_eq!((out.waiting(), writes.load(std::sync::atomic::Ordering::Relaxed)), (0, 1));
        out.append(|_| {});
        out.flush();
        assert_eq!((out.waiting(), writes.load(std::sync::atomic::Ordering::Relaxed)), (0, 1));
        hears(&mut here, 100, |_| 100).await;
    });
}

#[test]
fn it_goes_on_in_another_runtime() {
    let detached = std::sync::Mutex::new(None);
    run(async {
        let (here, mut there) = connected().await;
        let out = Outbound::new(&mut there.inbound);
        append(&out, 0, 20_000);
        append(&out, 1, 10);
        out.flush();
        *detached.lock().unwrap() = Some((here.detach().unwrap(), out.stream().is_unix()));
    });
    run(async {
        let (here, _) = detached.lock().unwrap().take().unwrap();
        hears(&mut Inbound::attach(here).unwrap(), 2, |n| if n == 0 { 20_000 } else { 10 }).await;
    });
}

#[test]
fn a_connection_that_ends_within_a_record_is_cut_and_plain_text_later_is_refused() {
    run(async {
        for (sends, is_cut) in [(&[23, 3, 3, 0, 100, 1, 2][..], true), (b"GET /", false)] {
            let (mut here, there) = connected().await;
            let stream = there.inbound.stream();
            stream.writable().await.unwrap();
            assert_eq!(stream.try_write(sends).unwrap(), sends.len());
            stream.shut();
            let closed = here.message(&mut vec![0; 4096]).await.unwrap_err();
            match closed {
                Closed::Cut => assert!(is_cut),
                Closed::Record(_) => assert!(!is_cut, "{closed}"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn without_a_key_nothing_is_said_over_tcp() {
    run(async {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1".to_owned(), 0)).await.unwrap();
        let stream = Stream::connect(&listener.address().unwrap()).await.unwrap();
        let error = open(stream, VOLUME, Role::Tool, None).await.unwrap_err();
        assert!(matches!(error, HandshakeError::NoKey), "{error:?}");
        let accepted = listener.accept().await.unwrap();
        accepted.stream.readable().await.unwrap();
        assert_eq!(accepted.stream.try_read(&mut [0; 10]).unwrap(), 0);
    });
}

/// So many serials.
fn serials(count: usize) -> Vec<Serial> {
    (0..count as u128).map(|number| Serial(number.to_be_bytes())).collect()
}

#[test]
fn all_that_is_revoked_is_told_however_much_it_is() {
    let authority = Authority::create(VOLUME).unwrap();
    let keys = |role| Keys::new(&issue(&authority, role)).unwrap();
    for count in [0, 1, REVOKED_MAX - 1, REVOKED_MAX, REVOKED_MAX + 1, 3 * REVOKED_MAX] {
        let all: Vec<_> = serials(count).iter().map(|serial| serial.0).collect();
        run(async {
            // From a server to a client,
            let (server, client) = (keys(KeyRole::Server), keys(KeyRole::Client));
            server.learn(serials(count));
            let (mut inbound, mut opened, _) = met(&server, &client, Role::Tool).await;
            assert!(opened.welcome.revoked == all, "{count}");
            let out = Outbound::new(&mut inbound);
            append(&out, 0, 100);
            out.flush();
            hears(&mut opened.inbound, 1, |_| 100).await;
            // and to a server from another one that connects.
            let (server, peer) = (keys(KeyRole::Server), keys(KeyRole::Server));
            peer.learn(serials(count));
            met(&server, &peer, Role::Peer(ShardIndex(0), Vec::new())).await;
            assert!(server.told_revoked() == all, "{count}");
        });
    }
}

#[test]
fn a_process_that_hears_of_too_many_revoked_keys_trusts_none() {
    let authority = Authority::create(VOLUME).unwrap();
    let keys = Keys::new(&issue(&authority, KeyRole::Server)).unwrap();
    keys.learn(serials(REVOKED_IN_ALL_MAX));
    assert!(keys.trust().is_ok());
    keys.learn(serials(REVOKED_IN_ALL_MAX + 2));
    let error = keys.trust().unwrap_err().to_string();
    assert!(error.contains("240000") && error.contains("run/revoked"), "{error}");
}

#[test]
fn what_was_shown_is_judged_again_by_what_was_heard_since() {
    let authority = Authority::create(VOLUME).unwrap();
    let keys = |role| Keys::new(&issue(&authority, role)).unwrap();
    run(async {
        let (server, client) = (keys(KeyRole::Server), keys(KeyRole::Client));
        let (_inbound, opened, proof) = met(&server, &client, Role::Tool).await;
        let (of_server, of_client) = (opened.shown.unwrap(), proof.shown.unwrap());
        server.judge(&of_client, Accepts::AnyRole).unwrap();
        client.judge(&of_server, Accepts::Servers).unwrap();
        // A client's key is no server's.
        assert!(server.judge(&of_client, Accepts::Servers).is_err());
        assert_eq!(client.news(), 0);
        assert!(
            client.learn([server.identity().serial]) && server.learn([client.identity().serial])
        );
        assert_eq!(client.news(), 1);
        for judged in
            [server.judge(&of_client, Accepts::AnyRole), client.judge(&of_server, Accepts::Servers)]
        {
            let error = judged.unwrap_err().to_string();
            assert!(error.contains("revoked"), "{error}");
        }
        let now = std::time::SystemTime::now();
        let day = std::time::Duration::from_secs(86_400);
        assert!(!of_client.is_expired(now + 29 * day) && of_client.is_expired(now + 31 * day));
    });
}

/// Keys that were issued during a rotation bring the old authority along.
#[test]
fn an_ended_authority_is_trusted_by_no_process_that_has_heard_of_the_end() {
    let old = Authority::create(VOLUME).unwrap();
    let next = old.succeed().unwrap();
    let keys = |authority, role| Keys::new(&issue(authority, role)).unwrap();
    let (client, server) = (keys(&next, KeyRole::Client), keys(&next, KeyRole::Server));
    let impostor = keys(&old, KeyRole::Server);
    run(async {
        let (_, opened, _) = met(&impostor, &client, Role::Tool).await;
        let of_impostor = opened.shown.unwrap();
        client.judge(&of_impostor, Accepts::Servers).unwrap();
        server.learn([old.serial()]);
        let (_, opened, _) = met(&server, &client, Role::Tool).await;
        client.learn(opened.welcome.revoked.into_iter().map(Serial));
        assert!(client.judge(&of_impostor, Accepts::Servers).is_err());
        client.judge(&opened.shown.unwrap(), Accepts::Servers).unwrap();
    });
}

/// A thief of a server's key could say so long before there is a newer authority.
#[test]
fn the_newest_authority_is_not_learned_to_be_revoked() {
    let old = Authority::create(VOLUME).unwrap();
    let keys = Keys::new(&issue(&old, KeyRole::Server)).unwrap();
    assert!(!keys.learn([old.serial()]));
    assert!(keys.learn([old.serial(), Serial([1; 16])]));
    assert_eq!(keys.heard().into_iter().collect::<Vec<_>>(), [Serial([1; 16])]);
    // With a folder it stays so when there is a newer authority. Only the owner's command ends the
    // older one.
    let temp = tempfile::tempdir().unwrap();
    let folder = KeysFolder::create(&temp.path().join("keys"), VOLUME).unwrap();
    let bundle = Bundle::read(&folder.own(KeyRole::Server)).unwrap();
    let keys = Keys::of_folder(&bundle, folder.path()).unwrap();
    let old = folder.authority(None).unwrap();
    assert!(!keys.learn([old.serial()]));
    folder.rotate(&old, None).unwrap();
    assert_eq!(keys.trust().unwrap().authorities.len(), 2);
}

#[test]
fn what_is_believed_is_made_ready_once_for_each_change() {
    let temp = tempfile::tempdir().unwrap();
    let folder = KeysFolder::create(&temp.path().join("keys"), VOLUME).unwrap();
    let bundle = Bundle::read(&folder.own(KeyRole::Server)).unwrap();
    let keys = Keys::of_folder(&bundle, folder.path()).unwrap();
    let same = |keys: &Keys, before: &Belief| {
        let now = keys.belief().unwrap();
        let is_same = Arc::ptr_eq(now.trust(), before.trust());
        assert_eq!(is_same, keys.is_current(before));
        is_same
    };
    let first = keys.belief().unwrap();
    assert!(same(&keys, &first) && !keys.learn([]) && same(&keys, &first));
    keys.learn([Serial([1; 16])]);
    let heard = keys.belief().unwrap();
    assert!(!same(&keys, &first) && same(&keys, &heard));
    folder.revoke("admin").unwrap();
    assert!(!same(&keys, &heard));
    assert_eq!(keys.trust().unwrap().revoked.len(), 2);
    // More serials than a process takes in are refused each time.
    keys.learn(serials(REVOKED_IN_ALL_MAX + 2));
    assert!(keys.belief().is_err() && keys.belief().is_err());
}
