//! The shards' own tables: nothing is under way.

use pando_core::keys::{self, Table};
use pando_core::record::{Record, Stat};
use pando_types::peer::EntryValue;

use super::rows::Volume;
use crate::host::Host;

/// Tables that must be empty, by name.
const EMPTY: [(Table, &str); 5] = [
    (Table::Open, "open"),
    (Table::Txn, "decided transaction"),
    (Table::Prepared, "prepared step"),
    (Table::Arrival, "arriving partition"),
    (Table::Garbage, "object to delete"),
];

/// Checks that they are, and that statfs counts right.
pub fn check(volume: &Volume, hosts: &[Host], faults: &mut Vec<String>) {
    for (shard, key, value) in &volume.own {
        for (table, name) in EMPTY {
            if key.starts_with(&keys::table(table)) {
                let shown = key.escape_ascii();
                faults.push(format!(
                    "shard {shard}: {name} is left: {shown} ({} bytes)",
                    value.len()
                ));
            }
        }
    }
    for host in hosts {
        let Some(process) = &host.process else { continue };
        let [locks, txns, prepared, opens] = process.shard.in_flight();
        if (locks, txns, prepared, opens) != (0, 0, 0, 0) {
            let shard = host.config.shard;
            faults.push(format!(
                "shard {shard}: {locks} locks, {txns} transactions, {prepared} prepared, {opens} opens"
            ));
        }
    }
    statfs(volume, faults);
}

fn statfs(volume: &Volume, faults: &mut Vec<String>) {
    let mut counted = (0, 0);
    for (shard, key, value) in &volume.own {
        if *key == keys::table(Table::Stat) {
            match Stat::decode(value) {
                Ok(stat) => counted = (counted.0 + stat.inodes, counted.1 + stat.bytes),
                Err(halt) => faults.push(format!("shard {shard}: {halt:?}")),
            }
        }
    }
    let inline = volume.entries.iter().filter_map(|entry| match &entry.value {
        EntryValue::File(inode) => Some(inode),
        _ => None,
    });
    let inodes: Vec<_> = inline.chain(volume.links.values().map(|(_, inode)| inode)).collect();
    let bytes: u64 = inodes.iter().map(|inode| inode.attr.size).sum();
    let there = ((inodes.len() + volume.contents.len()) as u64, bytes);
    if counted != there {
        faults.push(format!("statfs counts {counted:?}, there are {there:?} inodes and bytes"));
    }
}
