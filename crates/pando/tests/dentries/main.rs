//! What a kernel remembers of directories never leads a call astray. After one mount has renamed,
//! closed or removed something, no call on another mount takes it for what it was. Another set of
//! tests counts the requests of each call.

#[path = "../common/mod.rs"]
mod common;

mod acts;
mod counted;
mod matrix;
mod strict;
mod who;
