//! Targets of the fuzzer. Each takes bytes, and panics if a promise is broken.
//!
//! Harness code is that of the tests, included by its path, so that there is only one of each.

mod frames;
#[path = "../../crates/pando-fuse/src/protocol"]
pub mod protocol {
    //! Only the parser of `pando-fuse`: the rest of that crate takes longer to build than all else
    //! here.
    #[allow(missing_docs, reason = "see where they belong")]
    pub mod abi;
    mod body;
    pub mod operation;
    pub mod request;
}
mod fuse;
mod keys;
#[allow(dead_code, reason = "tests use more of it")]
#[path = "../../crates/pando-core/tests/shards/callers/liar.rs"]
mod liar;
mod net;
mod peers;
mod records;
#[allow(dead_code, reason = "tests use more of it")]
#[path = "../../crates/pando-wire/tests/hostile/samples.rs"]
mod samples;
pub mod seeds;
#[allow(dead_code, unused_imports, reason = "tests use more of it")]
#[path = "../../crates/pando-core/tests/shards/support/mod.rs"]
mod support;

/// Name of a target, and the function that runs an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 8] = [
    ("frames", frames::run),
    ("records", records::run),
    ("peers", peers::run),
    ("hello", net::hello),
    ("tls", net::tls),
    ("keys", keys::run),
    ("fuse", fuse::run),
    ("shard", liar::by_bytes),
];
