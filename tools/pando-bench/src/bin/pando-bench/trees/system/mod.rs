//! A system that is up.

mod pair;
mod stage;

pub use pair::Pair;
pub use stage::Stage;

use super::args::TreesArgs;
use super::row::System;
use crate::volume::servers::{Serve, Volume};

/// How the volume of a system is served. `None`: the system is no volume.
fn volume(system: System, args: &TreesArgs) -> Option<Volume<'static>> {
    let serve = match system {
        System::Tcp => Serve::Tcp,
        System::Unix => Serve::Unix,
        System::Up => Serve::Up,
        System::Local | System::Pass | System::Null => return None,
    };
    let (shards, durability) = (args.shards, args.durability.name());
    Some(Volume { serve, shards, durability, threads: None, is_alone: true })
}
