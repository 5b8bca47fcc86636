//! Is the structure whole? Reads the rows of all shards when nothing is under way and no session is left.
//!
//! 1. Partitions of a directory tile its orders exactly once, each on the shard where its index puts it, and with the
//!    directory's permissions; the home holds the content.
//! 2. Entries lie in a partition of their shard, at their name's order; headers count them.
//! 3. Entries and directories point at each other; link counts count entries.
//! 4. Cold rows belong to an inode; nothing is left of what was under way.

mod contents;
mod rows;
mod tables;

use crate::host::Host;
use rows::Volume;

/// All faults, in words; empty if there are none.
#[must_use]
pub fn fsck(hosts: &[Host]) -> Vec<String> {
    let mut faults = Vec::new();
    let volume = Volume::read(hosts, &mut faults);
    contents::check(&volume, &mut faults);
    tables::check(&volume, hosts, &mut faults);
    faults
}
