//! Who may come in, and what he is told who may not.

use pando_net::{HandshakeError, Inbound, ListenError, Outbound, Stream, open};
use pando_server::net::StartError;
use pando_types::{Epoch, ShardIndex};
use pando_wire::auth::Secret;
use pando_wire::{
    Address, Challenge, FEATURE_LEVEL, FEATURES_NEEDED, Hello, Hosting, Message, Proof, Refused,
    Role, VERSION, encode,
};

use crate::{Volume, run, within};

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

/// Says something at the beginning of a connection; the answer.
async fn say(address: &Address, bytes: &[u8]) -> Option<Message> {
    let stream = std::sync::Arc::new(Stream::connect(address).await.unwrap());
    let out = Outbound::new(stream.clone());
    out.append(|buffer| buffer.extend_from_slice(bytes));
    out.flush();
    let mut buffer = vec![0; 4096];
    within(Inbound::new(stream).message(&mut buffer)).await.ok().map(|(_, message)| message)
}

fn framed(message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, pando_wire::Stream(0), &message);
    bytes
}

fn hello(volume: [u8; 16]) -> Hello {
    Hello::new(volume, Role::Client(ShardIndex(0)), [7; 32])
}

#[test]
fn the_right_secret_opens_and_a_wrong_one_does_not() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.secret = Some(secret("correct horse battery"));
    let served = volume.serve(&[0], options);
    run(async {
        let right = served.dial(&served.tcp(), Some(&secret("correct horse battery\n"))).await;
        assert!(right.is_ok());
        let none = served.dial(&served.tcp(), None).await.unwrap_err();
        assert!(matches!(none, HandshakeError::Refused(Refused::SecretWanted)), "{none}");
        assert!(none.to_string().contains("--secret"), "{none}");
        let wrong = served.dial(&served.tcp(), Some(&secret("another horse battery"))).await;
        assert!(matches!(wrong, Err(HandshakeError::Impostor)));
        // Whoever may open the socket's file needs no secret.
        assert!(served.dial(&served.unix(), None).await.is_ok());
    });
}

#[test]
fn a_proof_of_a_wrong_secret_is_refused_by_the_server_itself() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.secret = Some(secret("correct horse battery"));
    let served = volume.serve(&[0], options);
    run(async {
        let stream = std::sync::Arc::new(Stream::connect(&served.tcp()).await.unwrap());
        let (out, mut inbound) = (Outbound::new(stream.clone()), Inbound::new(stream));
        let mut buffer = vec![0; 4096];
        let hello = hello(served.volume);
        out.append(|bytes| bytes.extend(framed(hello.clone().into())));
        out.flush();
        let heard = within(inbound.message(&mut buffer)).await.unwrap().1;
        let Message::Challenge(challenge) = heard else { panic!("{heard:?}") };
        let guess = secret("a guess that is wrong");
        let side = pando_wire::auth::Side::Opener;
        let proof = Some(guess.prove(side, &hello, &challenge.volume, &challenge.nonce));
        out.append(|bytes| bytes.extend(framed(Message::Proof(Proof { proof }))));
        out.flush();
        let heard = within(inbound.message(&mut buffer)).await.unwrap().1;
        assert_eq!(heard, Message::Refused(Refused::SecretWrong));
    });
}

#[test]
fn a_server_without_the_secret_is_not_trusted() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let error = served.dial(&served.tcp(), Some(&secret("correct horse battery"))).await;
        assert!(matches!(error, Err(HandshakeError::Impostor)));
    });
}

#[test]
fn another_volume_another_version_and_another_shard_are_told() {
    let volume = Volume::new(2);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let told = say(&served.tcp(), &framed(hello([9; 16]).into())).await;
        assert_eq!(told, Some(Message::Refused(Refused::Volume(served.volume))));

        let future = Hello { oldest: VERSION + 1, newest: VERSION + 2, ..hello(served.volume) };
        let told = say(&served.tcp(), &framed(future.into())).await;
        assert_eq!(
            told,
            Some(Message::Refused(Refused::Version { oldest: VERSION, newest: VERSION }))
        );

        // Of a version whose frames nobody here can read.
        let mut bytes = framed(hello(served.volume).into());
        bytes[8] = VERSION + 1;
        let checksum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        let told = say(&served.tcp(), &bytes).await;
        assert_eq!(
            told,
            Some(Message::Refused(Refused::Version { oldest: VERSION, newest: VERSION }))
        );

        let stream = Stream::connect(&served.tcp()).await.unwrap();
        let error = open(stream, served.volume, Role::Client(ShardIndex(1)), None).await;
        let error = error.unwrap_err();
        assert!(matches!(error, HandshakeError::Refused(Refused::NotHere(ShardIndex(1)))));
    });
}

#[test]
fn who_can_do_too_little_is_told_on_both_sides() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let (needed, found) = (FEATURES_NEEDED, FEATURES_NEEDED - 1);
        let old = Hello { features: found, ..hello(served.volume) };
        let told = say(&served.tcp(), &framed(old.into())).await;
        let refused = Refused::Features { needed, found };
        assert!(refused.to_string().contains("feature level"), "{refused}");
        assert_eq!(told, Some(Message::Refused(refused)));
        // More than enough is enough.
        let new = Hello { features: FEATURE_LEVEL + 7, ..hello(served.volume) };
        match say(&served.tcp(), &framed(new.into())).await {
            Some(Message::Challenge(challenge)) => assert_eq!(challenge.features, FEATURE_LEVEL),
            other => panic!("{other:?}"),
        }

        // A server of long ago.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let volume = served.volume;
        let old_server = tokio::spawn(async move {
            let stream = std::sync::Arc::new(Stream::Tcp(listener.accept().await.unwrap().0));
            let (out, mut inbound) = (Outbound::new(stream.clone()), Inbound::new(stream));
            let mut buffer = vec![0; 4096];
            let heard = within(inbound.message(&mut buffer)).await.unwrap().1;
            assert!(matches!(heard, Message::Hello(_)), "{heard:?}");
            let (nonce, proof) = ([7; 32], None);
            let challenge = Challenge { volume, nonce, features: found, wants_proof: false, proof };
            out.append(|bytes| bytes.extend(framed(Message::Challenge(challenge))));
            out.flush();
            // Nothing is proved to it.
            assert!(within(inbound.message(&mut buffer)).await.is_err());
        });
        let address = Address::Tcp("127.0.0.1".to_owned(), port);
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
        let told = say(&served.tcp(), &framed(Message::Proof(Proof { proof: None }))).await;
        assert!(matches!(told, Some(Message::Refused(Refused::Malformed(_)))), "{told:?}");
        let twice = [framed(hello(served.volume).into()), framed(hello(served.volume).into())];
        let stream = std::sync::Arc::new(Stream::connect(&served.tcp()).await.unwrap());
        let (out, mut inbound) = (Outbound::new(stream.clone()), Inbound::new(stream));
        out.append(|bytes| bytes.extend(twice.concat()));
        out.flush();
        let mut buffer = vec![0; 4096];
        let first = within(inbound.message(&mut buffer)).await.unwrap().1;
        assert!(matches!(first, Message::Challenge(_)));
        let second = within(inbound.message(&mut buffer)).await.unwrap().1;
        assert!(matches!(second, Message::Refused(Refused::Malformed(_))), "{second:?}");
        let noise = say(&served.tcp(), b"GET / HTTP/1.1\r\nHost: pando\r\n\r\n").await;
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
        let told = say(&served.tcp(), &bytes).await;
        assert!(matches!(told, Some(Message::Refused(Refused::Malformed(_)))), "{told:?}");
    });
}

#[test]
fn shards_that_were_started_elsewhere_since_are_turned_away() {
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
            let stream = Stream::connect(&served.tcp()).await.unwrap();
            open(stream, served.volume, Role::Peer(ShardIndex(0), speakers), None).await
        };
        let _newer = come(vec![hosting(1, 9)]).await.unwrap();
        let error = come(vec![hosting(1, 8)]).await.unwrap_err().to_string();
        assert!(error.contains("started elsewhere"), "{error}");
        // And nobody speaks for a shard that is here.
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
    let error = volume.try_serve(&[0], options.clone()).err().unwrap();
    assert!(error.to_string().contains("--secret"), "{error}");
    options.secret = Some(secret("correct horse battery"));
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
