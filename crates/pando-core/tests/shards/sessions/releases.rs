//! Files that are closed together: `Op::ReleaseAll`.

use crate::support::Cluster;
use pando_types::op::{FileAt, FileRef, Op, RELEASES_MAX};
use pando_types::reply::{Body, Improper};
use pando_types::{DirRef, ShardIndex};

const ROOT: DirRef = DirRef::ROOT;

fn opened(c: &mut Cluster, dir: DirRef, name: &str, times: u32) -> FileRef {
    let ino = c.create(dir, name).unwrap().ino;
    let file = FileRef { ino, at: FileAt::Name(dir, c.name(name)) };
    for _ in 0..times {
        c.done(&Op::Open { file: file.clone(), access: 4, truncate: false, kill: None }).unwrap();
    }
    file
}

#[test]
fn what_is_not_at_hand_is_left_as_it_was() {
    let mut c = Cluster::new(4, 100);
    let home = c.home(ROOT);
    let (a, twice, gone) =
        (opened(&mut c, ROOT, "a", 1), opened(&mut c, ROOT, "b", 2), opened(&mut c, ROOT, "c", 1));
    c.unlink(ROOT, "c").unwrap();
    c.settle();
    let never = FileRef { ino: c.create(ROOT, "d").unwrap().ino, ..a.clone() };
    let files = vec![gone.clone(), a.clone(), twice.clone(), never, twice.clone()];
    let elsewhere = ShardIndex((home.0 + 1) % 4);
    let all = Op::ReleaseAll(elsewhere, files.clone());
    assert_eq!(c.run(elsewhere, all), Ok(Body::Left(vec![0, 1, 2, 3, 4])));
    assert_eq!(c.in_flight()[3], 3);
    let all = Op::ReleaseAll(home, files);
    assert_eq!(c.run(home, all), Ok(Body::Left(vec![0, 3, 4])), "one of each file");
    assert_eq!(c.in_flight()[3], 2);
    c.done(&Op::Release(FileRef { at: FileAt::Link, ..gone })).unwrap();
    c.done(&Op::Release(twice)).unwrap();
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
    c.restart(c.all());
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
    let mut names = c.list(ROOT);
    names.sort();
    assert_eq!(names, ["a", "b", "d"]);
}

#[test]
fn names_of_several_partitions_are_released_by_their_owners() {
    let mut c = Cluster::new(4, 8);
    let dir = c.mkdir(ROOT, "big").unwrap();
    let files: Vec<_> = (0..60).map(|n| opened(&mut c, dir, &format!("f{n}"), 1)).collect();
    c.settle();
    assert_eq!(c.in_flight()[3], 60);
    let mut left = 0;
    for shard in (0..4).map(ShardIndex) {
        let all = Op::ReleaseAll(shard, files.clone());
        let Ok(Body::Left(of)) = c.run(shard, all) else { panic!("released") };
        left += of.len();
    }
    assert_eq!((left, c.in_flight()[3]), (3 * 60, 0));
}

#[test]
fn too_many_at_once_are_refused_whole() {
    let mut c = Cluster::new(1, 100);
    let home = c.home(ROOT);
    let file = opened(&mut c, ROOT, "a", 1);
    let all = Op::ReleaseAll(home, vec![file; RELEASES_MAX + 1]);
    assert_eq!(c.run(home, all), Err(Improper::TooMuch.into()));
    assert_eq!(c.in_flight()[3], 1);
}
