//! Paths of directories, remembered and guessed (InfiniFS §3.3.2, §3.4).

use std::sync::Arc;

use pando_client::path::Paths;
use pando_client::{Client, Content, IfThere, Options, block_on};
use pando_types::op::{Op, RenameFlags};
use pando_types::{Credentials, Errno};

use crate::fake::{Cluster, Fate};

const ROOT: Credentials = Credentials::ROOT;

pub fn paths(client: &Client) -> Paths<'_> {
    Paths::new(client, ROOT)
}

pub fn mv(client: &Client, from: &str, to: &str) {
    let flags = RenameFlags::default();
    block_on(paths(client).rename(from.as_bytes(), to.as_bytes(), flags)).expect("moved");
}

/// `/0/1/2…`, made by another client.
pub fn deep(cluster: &Arc<Cluster>, depth: usize) -> String {
    let client = cluster.client();
    let mut path = String::new();
    for level in 0..depth {
        path.push_str(&format!("/{level}"));
        block_on(paths(&client).mkdir(path.as_bytes(), 0o755)).expect("made");
    }
    path
}

/// Number of requests that `work` costs.
fn cost<T>(client: &Client, work: impl Future<Output = Result<T, Errno>>) -> u64 {
    let before = client.counters().requests();
    assert!(block_on(work).is_ok());
    client.counters().requests() - before
}

#[test]
fn a_warm_path_costs_one_request_however_deep() {
    for depth in [0, 1, 2, 7, 40] {
        let cluster = Cluster::new();
        let dir = deep(&cluster, depth);
        let client = cluster.client();
        let paths = paths(&client);
        let at = |name: &str| format!("{dir}/{name}").into_bytes();
        assert!(block_on(paths.stat(&at("nothing"))).is_err(), "warms it");
        let made = block_on(paths.mkdir(&at("first"), 0o755));
        assert!(made.is_ok(), "from now on the session is awake");
        let (file, moved, sub) = (at("file"), at("moved"), at("sub"));
        let flags = RenameFlags::default();
        assert_eq!(
            cost(&client, paths.create(&file, 0o644, IfThere::Refuse)),
            1,
            "create, depth {depth}"
        );
        assert_eq!(cost(&client, paths.stat(&file)), 1, "stat");
        assert_eq!(cost(&client, paths.lstat(&file)), 1, "lstat");
        assert_eq!(cost(&client, paths.open(&file, 4, Content::Kept)), 1, "open");
        assert_eq!(cost(&client, paths.rename(&file, &moved, flags)), 1, "rename");
        assert_eq!(cost(&client, paths.readdir(format!("{dir}/").as_bytes())), 1, "readdir");
        assert_eq!(cost(&client, paths.unlink(&moved)), 1, "unlink");
        assert_eq!(cost(&client, paths.mkdir(&sub, 0o755)), 1, "mkdir");
        assert_eq!(cost(&client, paths.readdir(&sub)), 2, "what was made is looked up once");
        assert_eq!(cost(&client, paths.readdir(&sub)), 1, "readdir");
        assert_eq!(cost(&client, paths.stat(&sub)), 1, "stat of a directory");
        assert_eq!(cost(&client, paths.rmdir(&sub)), 1, "rmdir");
        assert_eq!(client.path_stats().refusals, 0);
    }
}

#[test]
fn a_cold_path_costs_one_round_and_the_request_itself() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 9);
    let client = cluster.client();
    assert!(
        block_on(paths(&client).create(format!("{dir}/f").as_bytes(), 0o644, IfThere::Refuse))
            .is_ok()
    );
    let by_op = client.counters().requests_by_op();
    let of = |name| by_op.iter().find(|(op, _)| *op == name).map_or(0, |(_, count)| *count);
    assert_eq!((client.path_stats().rounds, of("Lookup"), of("Create")), (1, 0, 1), "{by_op:?}");
    assert!(of("Glimpse") <= 4, "one for each shard at most: {by_op:?}");
    assert_eq!(client.path_stats().directories, 9);
}

#[test]
fn a_directory_renamed_by_others_is_found_out() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 4);
    let (client, other) = (cluster.client(), cluster.client());
    let create =
        |path: String| block_on(paths(&client).create(path.as_bytes(), 0o644, IfThere::Refuse));
    create(format!("{dir}/a")).expect("made");
    mv(&other, "/0/1", "/0/z");
    assert_eq!(create(format!("{dir}/b")), Err(Errno::ENOENT));
    assert_eq!(client.path_stats().refusals, 1);
    create("/0/z/2/3/c".into()).expect("made");
    let listed = block_on(paths(&other).readdir(b"/0/z/2/3")).expect("there");
    let names: Vec<_> = listed.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(
        {
            let mut sorted = names;
            sorted.sort();
            sorted
        },
        ["a", "c"]
    );
    // The other way round: the name that was absent leads somewhere now.
    mv(&other, "/0/z", "/0/1");
    create(format!("{dir}/b")).expect("made");
    assert_eq!(create("/0/z/2/3/d".into()), Err(Errno::ENOENT));
}

#[test]
fn a_removed_directory_is_found_out_without_being_told() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 3);
    let (client, other) = (cluster.client(), cluster.client());
    assert!(block_on(paths(&client).stat(format!("{dir}/x").as_bytes())).is_err());
    for path in ["/0/1/2", "/0/1"] {
        block_on(paths(&other).rmdir(path.as_bytes())).expect("removed");
    }
    let create =
        |path: &str| block_on(paths(&client).create(path.as_bytes(), 0o644, IfThere::Refuse));
    assert_eq!(create("/0/1/2/f"), Err(Errno::ENOENT));
    for path in ["/0/1", "/0/1/2"] {
        block_on(paths(&other).mkdir(path.as_bytes(), 0o755)).expect("made again");
    }
    create("/0/1/2/f").expect("made");
    assert!(block_on(paths(&other).stat(b"/0/1/2/f")).is_ok());
}

#[test]
fn dots_and_symlinks_on_a_path_are_as_ever() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 3);
    let (client, other) = (cluster.client(), cluster.client());
    let paths = paths(&client);
    block_on(async {
        paths.symlink(b"0/1", b"/short").await?;
        let made = paths.create(format!("{dir}/f").as_bytes(), 0o644, IfThere::Refuse).await?.0;
        for _ in 0..2 {
            for path in ["/short/2/f", "/0/1/2/../2/f", "/0/../0/./1//2/f", "/short/../1/2/f"] {
                assert_eq!(paths.stat(path.as_bytes()).await?.ino, made.ino, "{path}");
            }
        }
        Ok::<_, Errno>(())
    })
    .expect("all of it works");
    mv(&other, "/0/1", "/1");
    let stat = |path: &str| block_on(paths.stat(path.as_bytes()));
    assert_eq!(stat("/short/2/f"), Err(Errno::ENOENT));
    assert_eq!(stat("/0/1/2/../2/f"), Err(Errno::ENOENT));
    assert!(stat("/0/../1/2/f").is_ok());
}

#[test]
fn with_no_room_every_path_is_walked() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 5);
    let options = Options { paths_bytes: 0, ..Options::default() };
    let client = cluster.client_with(options);
    for _ in 0..3 {
        assert!(block_on(paths(&client).stat(dir.as_bytes())).is_ok());
    }
    assert_eq!((client.path_stats().directories, client.path_stats().hits), (0, 0));
    assert_eq!(client.path_stats().rounds, 3);
}

#[test]
fn without_guessing_each_component_is_asked_for_in_its_turn() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 5);
    let components = dir.split('/').filter(|part| !part.is_empty()).count() as u64;
    let options = Options { paths_bytes: 0, guesses: false, ..Options::default() };
    let client = cluster.client_with(options);
    let path = format!("{dir}/f");
    block_on(paths(&client).create(path.as_bytes(), 0o644, IfThere::Refuse)).expect("made");
    for _ in 0..3 {
        let cost = cost(&client, paths(&client).lstat(path.as_bytes()));
        assert_eq!(cost, components + 1);
    }
    assert_eq!(client.path_stats().rounds, 0);
}

#[test]
fn a_call_that_is_refused_over_and_over_walks_as_linux_does_in_the_end() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 2);
    let client = cluster.client();
    // A shard that refuses every trail.
    cluster.on_request(|_, _, request| {
        let has_trail = request.trail.is_some() && !matches!(request.op, Op::Renew(_));
        has_trail.then_some(Fate::Answer(Err(pando_types::reply::Refusal::Stale)))
    });
    let path = format!("{dir}/f");
    block_on(paths(&client).create(path.as_bytes(), 0o644, IfThere::Refuse)).expect("made");
    assert!(client.path_stats().refusals >= 8);
    assert_eq!(client.path_stats().directories, 0, "nothing is remembered of such a walk");
}

#[test]
fn a_call_tells_whether_its_path_was_there_as_a_whole() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 2);
    let client = cluster.client();
    let paths = paths(&client);
    block_on(paths.stat(dir.as_bytes())).expect("there");
    assert!(!paths.was_loose());
    cluster.on_request(|_, _, request| {
        request.trail.is_some().then_some(Fate::Answer(Err(pando_types::reply::Refusal::Stale)))
    });
    block_on(paths.create(format!("{dir}/f").as_bytes(), 0o644, IfThere::Refuse)).expect("made");
    assert!(paths.was_loose());
    cluster.on_request(|_, _, _| None);
    block_on(paths.create(format!("{dir}/g").as_bytes(), 0o644, IfThere::Refuse)).expect("made");
    assert!(!paths.was_loose(), "it is of the last call");
}

#[test]
fn a_name_that_is_looked_at_anew_is_asked_for_by_its_path() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 2);
    let client = cluster.client();
    let paths = paths(&client);
    let file = format!("{dir}/f");
    block_on(paths.create(file.as_bytes(), 0o644, IfThere::Refuse)).expect("made");
    block_on(paths.link(file.as_bytes(), format!("{dir}/g").as_bytes())).expect("linked");
    // The inode that the name led to is gone a moment later.
    let mut is_gone = false;
    cluster.on_request(move |_, _, request| {
        let is_first =
            matches!(request.op, Op::GetAttr(_)) && !std::mem::replace(&mut is_gone, true);
        let gone = pando_types::reply::Refusal::Errno(Errno::ESTALE);
        is_first.then_some(Fate::Answer(Err(gone)))
    });
    cluster.take_log();
    block_on(paths.lstat(file.as_bytes())).expect("there");
    let log = cluster.take_log();
    let looks: Vec<_> =
        log.iter().filter(|(_, request)| matches!(request.op, Op::Lookup(..))).collect();
    assert_eq!(looks.len(), 2, "{looks:?}");
    let has_trail = |(_, request): &&(_, pando_types::op::Request)| request.trail.is_some();
    assert!(looks.iter().copied().all(|look| has_trail(&look)), "{looks:?}");
}
