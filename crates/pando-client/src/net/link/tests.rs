//! Servers with invalid keys, as clients see them.

use pando_keys::{Authority, KeyRole, Wanted};
use pando_net::{Keys, Listener, Proof, Reception, Serial, accept, this_host};
use pando_types::Epoch;
use pando_wire::{Address, Hello, Hosting, Refused, Welcome, encode};
use tokio::sync::mpsc;

use super::*;
use crate::net::options::NetOptions;
use crate::net::options::Target;

const VOLUME: [u8; 16] = [7; 16];

fn keys(authority: &Authority, name: &str, role: KeyRole) -> Keys {
    let (name, read_only, squash) = (name.to_owned(), false, None);
    let wanted = Wanted { role, name, read_only, squash, days: 1, addresses: Vec::new() };
    Keys::new(&authority.issue(&wanted).unwrap()).unwrap()
}

/// Runs a server of one shard, which tells the revoked serials in `news`. Returns its address.
async fn serve(keys: &Keys, mut news: mpsc::UnboundedReceiver<Vec<[u8; 16]>>) -> String {
    let listener = Listener::bind(&Address::Tcp("127.0.0.1".to_owned(), 0)).await.unwrap();
    let (address, keys) = (listener.address().unwrap().to_string(), keys.clone());
    tokio::spawn(async move {
        loop {
            let accepted = listener.accept().await.unwrap();
            let revoked = keys.told_revoked();
            let admit = |_: &Hello, _: &Proof| -> Result<(Welcome, ()), Refused> {
                Ok((Welcome { epoch: Epoch(1), in_flight: 1, hosts: Vec::new(), revoked }, ()))
            };
            let reception = Reception { volume: VOLUME, keys: Some(&keys) };
            let Ok((mut inbound, ..)) = accept(accepted, reception, admit).await else { continue };
            let out = Outbound::new(&mut inbound);
            let mut buffer = vec![0; 4096];
            let mut ends = pin!(inbound.message(&mut buffer));
            std::future::poll_fn(|context| {
                while let Poll::Ready(Some(page)) = news.poll_recv(context) {
                    let page = Message::Revoked(page);
                    out.append(|bytes| encode(bytes, Stream(0), &page));
                    out.flush();
                }
                ends.as_mut().poll(context).map(drop)
            })
            .await;
        }
    });
    address
}

/// A client that knows these servers, each of one shard.
fn client(keys: &Keys, addresses: [String; 2]) -> [Arc<Link>; 2] {
    let options = NetOptions { volume: VOLUME, keys: Some(keys.clone()), ..NetOptions::default() };
    let finder = Finder::new(&Target::Servers(Vec::new()), &options);
    let hosting = |(shard, address): (u16, String)| Hosting {
        shard: ShardIndex(shard),
        epoch: Epoch(1),
        host: this_host(),
        addresses: vec![address],
    };
    finder.know((0..).zip(addresses).map(hosting));
    let shared = Arc::new(Shared { finder, notice: options.notice });
    [0, 1].map(|shard| Link::new(ShardIndex(shard), &shared))
}

fn is_open(link: &Link) -> bool {
    link.state.lock().out.as_ref().is_some_and(|out| !out.is_closed())
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let within = tokio::time::timeout(Duration::from_secs(60), body);
        within.await.expect("it takes for ever");
    });
}

/// Another server tells that a serial is revoked, when its connection begins or later. That ends
/// the connection to this server for good.
async fn is_left_for(says_at_once: bool, what: impl Fn(&Keys) -> Serial, authority: &Authority) {
    let next = authority.succeed().unwrap();
    let [bad, client_key] = [(authority, "bad", KeyRole::Server), (&next, "ada", KeyRole::Client)]
        .map(|(authority, name, role)| keys(authority, name, role));
    let good = keys(&next, "good", KeyRole::Server);
    let serial = what(&bad);
    if says_at_once {
        good.learn([serial]);
    }
    let ((_, of_bad), (say, of_good)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let addresses = [serve(&bad, of_bad).await, serve(&good, of_good).await];
    let [to_bad, to_good] = client(&client_key, addresses);
    let runtime = Handle::current();
    to_bad.start(&runtime);
    until(|| is_open(&to_bad)).await;
    to_bad.judge(SystemTime::now());
    assert!(is_open(&to_bad), "nobody has said anything yet");
    to_good.start(&runtime);
    until(|| is_open(&to_good)).await;
    if !says_at_once {
        to_bad.judge(SystemTime::now());
        assert!(is_open(&to_bad));
        say.send(vec![serial.0]).unwrap();
    }
    until(|| client_key.news() > 0).await;
    to_bad.judge(SystemTime::now());
    assert!(!is_open(&to_bad));
    to_good.judge(SystemTime::now());
    assert!(is_open(&to_good));
    let why = to_bad.shared.finder.connect(ShardIndex(0)).await.err().unwrap();
    assert!(why.contains("its key is not accepted"), "{why}");
    // A connection also ends when a good server's certificate expires.
    to_good.judge(SystemTime::now() + Duration::from_secs(2 * 86_400));
    assert!(!is_open(&to_good));
    to_bad.stop();
    to_good.stop();
}

#[test]
fn a_server_whose_key_was_revoked_is_left_and_not_met_again() {
    let authority = Authority::create(VOLUME).unwrap();
    for says_at_once in [true, false] {
        run(is_left_for(says_at_once, |bad| bad.identity().serial, &authority));
    }
}

#[test]
fn a_server_of_an_authority_that_was_ended_is_left_and_not_met_again() {
    let authority = Authority::create(VOLUME).unwrap();
    for says_at_once in [true, false] {
        run(is_left_for(says_at_once, |_| authority.serial(), &authority));
    }
}
