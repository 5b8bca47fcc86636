//! What becomes of a store whose process dies, or whose disk fails, fills up, or gives damaged
//! bytes.

mod ballast;
mod crash;
mod damage;
mod dark;
mod scrub;
mod shared;
mod sync;
mod unreadable;
