//! Callers and their permissions; callers and servers that lie.

mod files;
mod judged;
mod keys;
mod liar;
mod setid;
mod squashed;
mod unsound;
