//! The messages at the beginning of a connection, and how a server answers malformed ones. Over a
//! Unix socket they are in plain text.

use pando_keys::KeyRole;
use pando_net::{HandshakeError, Inbound, ListenError, Outbound, Stream};
use pando_server::net::StartError;
use pando_types::{Epoch, ShardIndex};
use pando_wire::{
    Address, Challenge, FEATURE_LEVEL, FEATURES_NEEDED, Hello, Hosting, Message, Refused, Role,
    VERSION, encode,
};

use crate::{Volume, run, within};

/// Sends plain text at the beginning of a connection, and returns the answer.
async fn say(address: &Address, bytes: &[u8]) -> Option<Message> {
    let mut inbound = Inbound::new(Stream::connect(address).await.unwrap().into());
    let out = Outbound::new(&mut inbound);
    out.append(|buffer| buffer.extend_from_slice(bytes));
    out.flush();
    let mut buffer = vec![0; 4096];
    within(inbound.message(&mut buffer)).await.ok().map(|(_, message)| message)
}

fn framed(message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, pando_wire::Stream(0), &message);
    bytes
}

fn hello(volume: [u8; 16]) -> Hello {
    Hello::new(volume, Role::Client(ShardIndex(0)), Vec::new())
}

#[test]
fn another_volume_another_version_and_another_shard_are_told() {
    let volume = Volume::new(2);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let told = say(&served.unix(), &framed(hello([9; 16]).into())).await;
        assert_eq!(told, Some(Message::Refused(Refused::Volume(served.volume))));

        let future = Hello { oldest: VERSION + 1, newest: VERSION + 2, ..hello(served.volume) };
        let told = say(&served.unix(), &framed(future.into())).await;
        assert_eq!(
            told,
            Some(Message::Refused(Refused::Version { oldest: VERSION, newest: VERSION }))
        );

        // A message of a version with frames that this program cannot read.
        let mut bytes = framed(hello(served.volume).into());
        bytes[8] = VERSION + 1;
        let checksum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        let told = say(&served.unix(), &bytes).await;
        assert_eq!(
            told,
            Some(Message::Refused(Refused::Version { oldest: VERSION, newest: VERSION }))
        );

        let role = Role::Client(ShardIndex(1));
        let error = served.dial_as(&served.tcp(), Some(&served.admin), role).await.unwrap_err();
        assert!(matches!(error, HandshakeError::Refused(Refused::NotHere(ShardIndex(1)))));
    });
}

#[test]
fn a_peer_that_can_do_too_little_is_told_on_both_sides() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let (needed, found) = (FEATURES_NEEDED, FEATURES_NEEDED - 1);
        let old = Hello { features: found, ..hello(served.volume) };
        let told = say(&served.unix(), &framed(old.into())).await;
        let refused = Refused::Features { needed, found };
        assert!(refused.to_string().contains("feature level"), "{refused}");
        assert_eq!(told, Some(Message::Refused(refused)));
        // A higher feature level than needed is accepted.
        let new = Hello { features: FEATURE_LEVEL + 7, ..hello(served.volume) };
        match say(&served.unix(), &framed(new.into())).await {
            Some(Message::Challenge(challenge)) => assert_eq!(challenge.features, FEATURE_LEVEL),
            other => panic!("{other:?}"),
        }

        // A server of an old version.
        let path = volume.temp.path().join("old.sock");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let volume = served.volume;
        let old_server = tokio::spawn(async move {
            let stream = Stream::Unix(listener.accept().await.unwrap().0);
            let mut inbound = Inbound::new(stream.into());
            let out = Outbound::new(&mut inbound);
            let mut buffer = vec![0; 4096];
            let heard = within(inbound.message(&mut buffer)).await.unwrap().1;
            assert!(matches!(heard, Message::Hello(_)), "{heard:?}");
            let challenge = Challenge { volume, features: found };
            out.append(|bytes| bytes.extend(framed(Message::Challenge(challenge))));
            out.flush();
            assert!(within(inbound.message(&mut buffer)).await.is_err());
        });
        let address = Address::Unix(path);
        let error = served.dial(&address, None).await.unwrap_err();
        old_server.await.unwrap();
        assert!(matches!(error, HandshakeError::Features(level) if level == found), "{error}");
        assert!(error.to_string().contains("feature level"), "{error}");
    });
}

#[test]
fn words_out_of_turn_are_refused() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let challenge = Challenge { volume: served.volume, features: FEATURE_LEVEL };
        let told = say(&served.unix(), &framed(Message::Challenge(challenge))).await;
        assert!(matches!(told, Some(Message::Refused(Refused::Malformed(_)))), "{told:?}");
        let noise = say(&served.unix(), b"GET / HTTP/1.1\r\nHost: pando\r\n\r\n").await;
        assert!(matches!(noise, Some(Message::Refused(Refused::Malformed(_)))), "{noise:?}");
    });
}

#[test]
fn a_long_frame_before_the_welcome_is_not_taken() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut bytes = framed(hello(served.volume).into());
        bytes[..4].copy_from_slice(&(1_u32 << 20).to_le_bytes());
        let told = say(&served.unix(), &bytes).await;
        assert!(matches!(told, Some(Message::Refused(Refused::Malformed(_)))), "{told:?}");
    });
}

#[test]
fn shards_that_were_started_elsewhere_since_are_refused() {
    let volume = Volume::new(2);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let hosting = |shard, epoch| Hosting {
            shard: ShardIndex(shard),
            epoch: Epoch(epoch),
            host: [1; 16],
            addresses: vec!["10.1.1.1:1".to_owned()],
        };
        let come = async |speakers| {
            let role = Role::Peer(ShardIndex(0), speakers);
            served.dial_as(&served.tcp(), Some(&volume.own(KeyRole::Server)), role).await
        };
        let _newer = come(vec![hosting(1, 9)]).await.unwrap();
        let error = come(vec![hosting(1, 8)]).await.unwrap_err().to_string();
        assert!(error.contains("another server has started"), "{error}");
        // No other process may speak for a shard that runs here.
        assert!(come(vec![hosting(0, 99)]).await.is_err());
    });
}

#[test]
fn an_address_in_use_and_one_open_to_all_are_refused_at_the_start() {
    let volume = Volume::new(1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut options = volume.options(0);
    options.listen = vec![Address::Tcp("127.0.0.1".to_owned(), port)];
    let error = volume.try_serve(&[0], options).err().unwrap();
    assert!(matches!(error, StartError::Listen(ListenError::InUse(_))), "{error}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");

    let mut options = volume.options(0);
    options.listen = vec![Address::Tcp("0.0.0.0".to_owned(), 0)];
    let error = volume.try_serve(&[0], options).err().unwrap();
    assert!(error.to_string().contains("--advertise"), "{error}");
}

#[test]
fn a_dead_servers_socket_is_replaced_and_a_living_ones_is_not() {
    let volume = Volume::new(2);
    let socket = volume.folder.server_socket(0);
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let served = volume.serve(&[0], volume.options(0));
    let error = volume.try_serve(&[1], volume.options(0)).err().unwrap();
    assert!(error.to_string().contains("in use"), "{error}");
    drop(served);
    assert!(!socket.exists());
    drop(volume.temp);
}
