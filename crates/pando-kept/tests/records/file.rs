//! The file of the machine's memory.

use std::os::fd::AsFd;

use pando_kept::{Mapped, Memory, Nodes};

use crate::log::{any_node, identity, model};

#[test]
fn a_file_has_all_that_was_put_into_it_in_several_chunks() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut nodes = Nodes::create(Mapped::create().unwrap(), identity(0)).unwrap();
    let mut first = any_node(&mut random, 1);
    let at = nodes.put(None, &first).unwrap();
    // More than a chunk has.
    for ino in 2..40_000 {
        let mut node = first.clone();
        node.ino = ino;
        nodes.put(None, &node).unwrap();
    }
    first.own[1] = 7;
    nodes.set_own(at, 1, 7);
    assert!(nodes.memory().len() > 2 * Mapped::CHUNK);
    let file = nodes.memory().as_fd().try_clone_to_owned().unwrap();
    drop(nodes);
    let (nodes, found) = Nodes::adopt(Mapped::open(file).unwrap(), identity(1)).unwrap();
    assert!(nodes.is_kept());
    let state = model(&found);
    assert_eq!((state.len(), found.damaged), (39_999, 0));
    assert_eq!(state[&1], first);
    assert_eq!(state[&39_999].name, first.name);
}

#[test]
fn a_file_that_can_shrink_is_refused() {
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(c"open", flags).unwrap();
    let error = Mapped::open(file).unwrap_err();
    assert!(error.to_string().contains("not sealed"), "{error}");
    let nodes = Nodes::create(Mapped::create().unwrap(), identity(0)).unwrap();
    assert!(rustix::fs::ftruncate(nodes.memory().as_fd(), 0).is_err());
}
