//! `pando shard add` while a client works and processes are killed.

use serde_json::Value;

use crate::common::site::until;
use crate::common::{Scratch, Volume, all, pando, shell};
use crate::site::{
    Running, Server, Site, Worker, hash_slots, hosts_of, is_whole, list, shard_add, shard_move,
};

#[test]
fn a_shard_is_added_while_a_client_works() {
    let site = Site::new(&[], &[]);
    let worker = site.worker.as_ref().unwrap();
    let output = shard_add(&site.old.folder, &["--to", &site.new.address]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((told["shard"].as_u64(), &told["moved"]), (Some(4), &told["slots"]));
    worker.goes_on(200);
    for target in [site.old.folder.to_str().unwrap(), &site.new.address] {
        let slots = hash_slots(target);
        assert_eq!((slots.len(), slots.iter().sum::<u64>()), (5, 1 << 16));
        assert_eq!(Some(slots[4]), told["slots"].as_u64());
        assert_eq!(hosts_of(4, target), std::slice::from_ref(&site.new.address));
    }
    // The new shard moves as all others do.
    let moved = shard_move(4, &site.old.address);
    assert!(moved.status.success(), "{}", all(&moved));
    worker.goes_on(200);
    assert_eq!(hosts_of(4, &site.new.address), std::slice::from_ref(&site.old.address));
    site.end();
}

/// A server of the volume's folder that is started for the next shard creates that shard.
#[test]
fn a_server_may_be_started_for_the_next_shard() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("volume");
    let made = pando().arg("format").arg(&folder).args(["--shards", "7"]).output().unwrap();
    assert!(made.status.success(), "{}", all(&made));
    let old = Server::start(&folder, &[]);
    let worker = Worker::start(&folder);
    let beyond = pando().arg("server").arg(&folder).args(["--shard", "8"]).output().unwrap();
    assert!(!beyond.status.success());
    assert!(all(&beyond).contains("there is no shard 8"), "{}", all(&beyond));
    let new = Server::serve(&folder, "7", &[]);
    let output = shard_add(&folder, &[]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    worker.goes_on(200);
    let shown = folder.to_str().unwrap();
    assert_eq!((hash_slots(shown).len(), hosts_of(7, shown)), (8, vec![new.address.clone()]));
    worker.end();
    is_whole(&old.address);
}

#[test]
fn a_volume_that_is_up_grows_and_is_found_so_when_it_is_up_again() {
    let mut volume = Volume::up(&["--shards", "7"]);
    let fill = |volume: &Volume, name: &str| {
        let script = format!("for d in $(seq 150); do mkdir -p d$d; touch d$d/{name}; done");
        shell(&volume.mount, &script);
    };
    fill(&volume, "before");
    let output = shard_add(&volume.folder, &[]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    fill(&volume, "after");
    let names_there = || list(volume.folder.to_str().unwrap())["shards"][7]["entries"].as_u64();
    // About an eighth of 150 directories is there. There is none once in 500 million volumes.
    assert!(names_there().unwrap() > 0);
    volume.kill();
    volume.start(&[]);
    assert_eq!(shell(&volume.mount, "ls d*/before d*/after | wc -l").trim(), "300");
    assert_eq!(hash_slots(volume.folder.to_str().unwrap()).len(), 8);
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(all(&output).contains("on 8 shards"), "{}", all(&output));
}

#[test]
fn whatever_is_killed_while_a_shard_is_added_the_same_command_goes_on() {
    let mut site = Site::new(&[], &[]);
    let (folder, to) = (site.old.folder.clone(), site.new.address.clone());
    let begin = || Running::of(shard_add(&folder, &["--to", &to, "--rate", "1500"]));
    let come = |more: u64| {
        let shown = folder.to_str().unwrap();
        let arrived = || hash_slots(shown).get(4).copied().unwrap_or(0);
        let so_far = arrived();
        until("slots come", || arrived() >= so_far + more);
    };
    let command = begin();
    come(200);
    command.kill();
    let command = begin();
    come(200);
    site.old.kill();
    site.old.restart(&[]);
    come(200);
    site.new.kill();
    site.rejoin(&[]);
    site.goes_on(100);
    let output = command.result();
    assert!(output.status.success(), "{}", all(&output));
    let slots = hash_slots(folder.to_str().unwrap());
    assert_eq!((slots.len(), slots.iter().sum::<u64>()), (5, 1 << 16));
    site.goes_on(200);
    site.end();
}
