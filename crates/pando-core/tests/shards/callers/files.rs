//! Contents of many files at once: they are those that each file's own request tells.

use pando_types::op::{FILES_MAX, FileAt, FileRef, Op, Payload, Piece};
use pando_types::reply::{Body, Layout, Refusal};
use pando_types::{Credentials, DirRef, Errno, Name, Order, SetAttr};

use crate::grants::{cluster, lent};
use crate::support::Cluster;

/// Makes a file with these bytes.
fn file(c: &mut Cluster, dir: DirRef, name: &str, bytes: &[u8]) -> FileRef {
    let ino = c.create(dir, name).unwrap().ino;
    let file = FileRef { ino, at: FileAt::Name(dir, c.name(name)) };
    let pieces = vec![Piece { offset: 0, payload: Payload::Inline(bytes.to_vec()) }];
    let write = Op::WriteData { file: file.clone(), base: None, pieces, mtime: None, kill: None };
    c.done(&write).unwrap();
    file
}

fn contents(c: &mut Cluster, dir: DirRef, from: Order, bytes: u32) -> (Vec<(Name, Layout)>, Order) {
    match c.body(&Op::ReadFiles { dir, from, bytes }) {
        Ok(Body::Files(files, next)) => (files, next),
        other => panic!("{other:?}"),
    }
}

/// All pages, each of so many bytes.
fn all(c: &mut Cluster, dir: DirRef, bytes: u32) -> Vec<(Name, Layout)> {
    let (mut all, mut from) = (Vec::new(), Order(0));
    loop {
        let (files, next) = contents(c, dir, from, bytes);
        assert!(next > from, "it does not go on");
        all.extend(files);
        from = next;
        if from.0 == Order::END {
            return all;
        }
    }
}

#[test]
fn contents_of_many_files_are_those_of_each() {
    let mut c = Cluster::new(4, 16);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    c.mkdir(dir, "sub").unwrap();
    let files: Vec<_> = (0..60_usize)
        .map(|n| file(&mut c, dir, &format!("f{n}"), &vec![n as u8; n * 67]))
        .collect();
    c.settle();
    for bytes in [1, 5_000, u32::MAX] {
        let mut told = all(&mut c, dir, bytes);
        assert_eq!(told.len(), files.len());
        for file in &files {
            let FileAt::Name(_, name) = &file.at else { panic!("in its entry") };
            let at = told.iter().position(|(told, _)| told == name).expect("it is told");
            let read = Op::ReadData { file: file.clone(), offset: 0, len: u64::MAX };
            assert_eq!(c.body(&read), Ok(Body::Layout(told.swap_remove(at).1)));
        }
    }
}

#[test]
fn an_answer_of_contents_is_bounded_and_goes_on() {
    let mut c = Cluster::new(1, 10_000);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    for n in 0..FILES_MAX + 9 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    let (files, next) = contents(&mut c, dir, Order(0), u32::MAX);
    assert_eq!(files.len(), FILES_MAX);
    let (files, next) = contents(&mut c, dir, next, u32::MAX);
    assert_eq!((files.len(), next.0), (9, Order::END));
}

/// Whoever is judged by the shard alone gets what it could find by names.
#[test]
fn contents_by_number_need_the_right_to_list_and_to_search() {
    let no = Err(Errno::EACCES);
    let user = Credentials::new(9, 9, Vec::new());
    for (mode, by, expected) in [
        (0o704, user.clone(), no),
        (0o701, user.clone(), no),
        (0o705, user, Ok(1)),
        (0o700, Credentials::ROOT, Ok(2)),
    ] {
        let mut c = Cluster::new(1, 100);
        let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
        for (name, mode) in [("open", 0o604), ("shut", 0o600)] {
            let file = file(&mut c, dir, name, b"text");
            c.done(&Op::SetAttr(file, SetAttr { mode: Some(mode), ..SetAttr::default() })).unwrap();
        }
        c.done(&Op::DirSetAttr(dir, SetAttr { mode: Some(mode), ..SetAttr::default() })).unwrap();
        c.by = by.clone();
        let told = match c.body(&Op::ReadFiles { dir, from: Order(0), bytes: 99 }) {
            Ok(Body::Files(files, _)) => Ok(files.len()),
            other => other.map(|_| 0),
        };
        assert_eq!(told, expected, "{mode:o} by {by:?}");
    }
}

#[test]
fn contents_of_what_is_lent_are_refused_and_not_waited_for() {
    let mut c = cluster(1);
    let (dir, holder, _) = lent(&mut c);
    let read = Op::ReadFiles { dir, from: Order(0), bytes: 99 };
    assert_eq!(c.ask(holder.shard, read), Some(Err(Refusal::Errno(Errno::EAGAIN))));
    assert!(c.counters().iter().all(|counters| counters.parts_recalled == 0));
}
