//! Memory that pending calls take.

use pando_client::{IfThere, Then};
use pando_types::Ino;

use crate::fake::{Cluster, ROOT, name};
use crate::walks::routing::file;

/// Largest piece, in bytes, that an allocator has at hand (glibc: 1,032). A larger one costs
/// several times as much, and a mount allocates one for each request of the kernel.
const AT_HAND: usize = 1_032;

#[test]
fn the_calls_there_are_most_of_take_little() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let (calls, a) = (client.by_dentry(None), name("a"));
    let sizes = [
        ("lookup", size_of_val(&calls.lookup_brief(ROOT, Ino::ROOT, &a))),
        (
            "create",
            size_of_val(&calls.create(ROOT, Ino::ROOT, &a, file(), IfThere::Refuse, Then::Open)),
        ),
        ("getattr", size_of_val(&calls.getattr(Ino::ROOT))),
        ("unlink", size_of_val(&calls.unlink(ROOT, Ino::ROOT, &a))),
        ("release", size_of_val(&client.release(Ino::ROOT))),
    ];
    let large: Vec<_> = sizes.iter().filter(|(_, size)| *size > AT_HAND).collect();
    assert!(large.is_empty(), "{large:?}");
}
