//! Shards move between processes with folders of their own, while a client works and either side
//! dies.

use crate::common::site::until;
use crate::common::{all, pando};
use crate::site::{Running, Site, hosts_of, is_whole, list, log, shard_move};

#[test]
fn shards_move_while_a_client_works_and_come_back() {
    let mut site = Site::new(&[], &[]);
    let listed = list(site.old.folder.to_str().unwrap());
    let shards = listed["shards"].as_array().unwrap();
    let slots: u64 = shards.iter().map(|shard| shard["slots"].as_u64().unwrap()).sum();
    assert_eq!((shards.len(), slots), (4, 1 << 16));
    // Where a directory is placed is random.
    let partitions: u64 = shards.iter().map(|shard| shard["partitions"].as_u64().unwrap()).sum();
    assert!(partitions > 1, "{listed}");
    for shard in [1, 0] {
        let moved = shard_move(shard, &site.new.address);
        assert!(moved.status.success(), "{}", all(&moved));
        site.goes_on(100);
        let kept = site.old.folder.join(format!("shard-{shard:04}"));
        until("the old copy is removed", || !kept.exists());
    }
    for target in [site.old.folder.to_str().unwrap(), &site.new.address] {
        assert_eq!(hosts_of(1, target)[0], site.new.address);
        assert_eq!(hosts_of(2, target)[0], site.old.address);
    }
    // A second move of the shard finds it there.
    let again = shard_move(1, &site.new.address);
    assert!(again.status.success(), "{}", all(&again));
    // Both processes start again, each with the shards that it now has.
    site.old.kill();
    site.old.restart(&[]);
    site.new.kill();
    site.rejoin(&[]);
    site.goes_on(100);
    let back = shard_move(1, &site.old.address);
    assert!(back.status.success(), "{}", all(&back));
    site.goes_on(100);
    assert_eq!(hosts_of(1, &site.new.address)[0], site.old.address);
    site.end();
}

/// The target dies at a point of a move, and starts again.
fn target_dies(point: &str) {
    let mut site = Site::new(&[], &["--die-at", point]);
    let died = shard_move(2, &site.new.address);
    assert!(!died.status.success(), "{}", all(&died));
    site.new.is_gone();
    site.rejoin(&[]);
    comes_in_the_end(site, 2);
}

/// The source dies at a point of a move, and starts again. A target with a complete copy asks until
/// it gets an answer.
fn source_dies(shard: u16, point: &str) {
    let has_whole_copy = point == "given";
    let mut site = Site::new(&["--die-at", point], &[]);
    let first = Running::moving(shard, &site.new.address, &[]);
    site.old.is_gone();
    let result = if has_whole_copy {
        site.old.restart(&[]);
        first.result()
    } else {
        let result = first.result();
        site.old.restart(&[]);
        result
    };
    assert_eq!(result.status.success(), has_whole_copy, "{}", all(&result));
    comes_in_the_end(site, shard);
}

/// Runs the command again. Nothing is lost, and the shard gets to its target.
fn comes_in_the_end(site: Site, shard: u16) {
    site.goes_on(100);
    let moved = shard_move(shard, &site.new.address);
    assert!(moved.status.success(), "{}", all(&moved));
    assert_eq!(hosts_of(shard.into(), &site.old.address)[0], site.new.address);
    site.goes_on(100);
    let kept = site.old.folder.join(format!("shard-{shard:04}"));
    until("the old copy is removed", || !kept.exists());
    site.end();
}

#[test]
fn a_target_that_dies_while_it_copies_copies_anew() {
    target_dies("copying");
}

#[test]
fn a_target_that_dies_while_the_source_stands_still_copies_anew() {
    target_dies("exchanging");
}

#[test]
fn a_target_that_dies_with_a_whole_copy_asks_for_it() {
    target_dies("ready");
}

#[test]
fn a_target_that_dies_with_what_is_its_own_serves_it_when_it_is_back() {
    target_dies("taken");
}

#[test]
fn a_target_that_dies_before_it_could_tell_serves_all_the_same() {
    target_dies("opened");
}

#[test]
fn a_source_that_dies_while_it_is_copied_keeps_the_shard() {
    source_dies(2, "following");
}

#[test]
fn a_source_that_dies_while_it_stands_still_keeps_the_shard() {
    source_dies(2, "frozen");
}

#[test]
fn a_source_that_dies_when_it_has_given_the_shard_away_has_given_it_away() {
    source_dies(2, "given");
}

/// The server's socket has the name of its first shard, which is the one that has moved.
#[test]
fn a_source_that_has_given_its_first_shard_away_is_found_where_it_was() {
    source_dies(0, "given");
}

/// The source has written that the shard is given away, but does not know whether that is durable.
/// It reads its folder when it starts again.
#[test]
fn a_shard_that_may_have_been_given_away_is_served_by_no_process_until_its_source_knows() {
    let mut site = Site::new(&["--fail-at", "committed"], &[]);
    site.worker.take().unwrap().end();
    let moving = Running::moving(2, &site.new.address, &[]);
    let source = site.old.folder.clone();
    until("the source does not know", || {
        log(&source).contains("whether that is durable is unknown")
    });
    let target = site.new.folder.clone();
    until("the target keeps its copy and asks", || log(&target).contains("asks until it does"));
    site.old.kill();
    site.old.restart(&[]);
    let moved = moving.result();
    assert!(moved.status.success(), "{}", all(&moved));
    assert_eq!(hosts_of(2, &site.old.address)[0], site.new.address);
    is_whole(&site.new.address);
}

#[test]
fn what_cannot_be_moved_is_said() {
    let site = Site::new(&[], &[]);
    let cases = [(9, &site.new, "there is no shard 9"), (1, &site.old, "")];
    for (shard, to, said) in cases {
        let output = shard_move(shard, &to.address);
        assert_eq!(output.status.success(), said.is_empty(), "{}", all(&output));
        assert!(all(&output).contains(said), "{}", all(&output));
    }
    let nowhere = site.new.folder.with_file_name("nowhere");
    let up = pando().arg("up").arg(&site.new.folder).arg("--mount").arg(nowhere).output();
    assert!(!up.unwrap().status.success());
    site.end();
}
