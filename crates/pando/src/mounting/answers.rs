//! Answers that every process with a mount gives on its admin socket.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use pando_client::Client;
use pando_data::DataFs;
use pando_fuse::Mounted;
use pando_fuse::device::Measured;
use pando_lent::Counts;
use pando_server::superblock::unhex;
use pando_types::Name;
use pando_types::histogram::Buckets;

use super::losses;
use crate::admin::protocol::{MountProfile, MountStatus, ProfileRow, Told};
use crate::process::memory::resident_bytes;

/// Longest profile, seconds.
const PROFILE_MAX: u64 = 3600;

/// Parses names of a query, which are hexadecimal.
pub fn parse_names(names: &[String]) -> Result<Vec<Name>, String> {
    let parse = |digits: &String| {
        let bytes = unhex(digits).ok_or_else(|| format!("`{digits}` is not hexadecimal"))?;
        Name::new(&bytes).map_err(|errno| format!("{:?}: {errno}", OsStr::from_bytes(&bytes)))
    };
    names.iter().map(parse).collect()
}

impl MountStatus {
    /// The status of a mount at this path.
    pub fn of(path: &str, client: &Client, data: &DataFs, mounted: &Mounted) -> Self {
        let named = |counts: Vec<(&'static str, u64)>| {
            counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let (requests, counters) = mounted.counters();
        let measured = mounted.measured();
        let of = |count: fn(&Measured) -> u64| measured.as_ref().map_or(0, count);
        Self {
            age_nanos: of(|it| u64::try_from(it.age.as_nanos()).unwrap_or(u64::MAX)),
            memory_bytes: resident_bytes().unwrap_or(0),
            read_bytes: of(|it| it.read_bytes),
            written_bytes: of(|it| it.written_bytes),
            path: path.to_owned(),
            known_inodes: client.known_inodes() as u64,
            dirty_bytes: data.dirty_bytes(),
            lost_bytes: data.lost_bytes(),
            losses: losses::of(path, data),
            requests: named(requests),
            messages: named(client.counters().requests_by_op()),
            counters: named(counters),
            latencies: measured.into_iter().flat_map(|it| it.latencies).map(latency).collect(),
        }
    }

    /// Adds what was lent to the mount.
    pub fn with_lent(mut self, counts: Counts) -> Self {
        let Counts { parts, reads, unsent, answered, lent, amended, set_aside, remembered } =
            counts;
        let named = [
            ("lent_parts", parts),
            ("lent_reads", reads),
            ("lent_unsent", unsent),
            ("lent_answered", answered),
            ("lent_so_far", lent),
            ("lent_amended", amended),
            ("lent_set_aside", set_aside),
            ("remembered", remembered),
        ];
        self.counters.extend(named.map(|(name, count)| (name.to_owned(), count)));
        self
    }
}

fn latency((name, buckets): (&'static str, Buckets)) -> (String, Vec<u64>) {
    (name.to_owned(), buckets.counts)
}

/// Begins to count requests by caller.
pub fn begin_profile(mounted: &Mounted, number: u64, seconds: u64) -> Result<Told, String> {
    if !(1..=PROFILE_MAX).contains(&seconds) {
        return Err(format!("a profile runs for 1 to {PROFILE_MAX} s, not for {seconds}"));
    }
    let begun = mounted.begin_profile(number, Duration::from_secs(seconds));
    begun.map(|()| Told::Profiling).map_err(|left| {
        let left = left.as_secs() + 1;
        format!("another profile of this mount runs, for {left} s more: try again after that")
    })
}

/// Ends a profile, and tells what it has found.
pub fn end_profile(mounted: &Mounted, number: u64) -> Result<Told, String> {
    let found = mounted
        .end_profile(number)
        .ok_or("the profile is gone: another one has begun since its time was over")?;
    let row = |row: pando_fuse::device::Row| ProfileRow {
        user: row.uid,
        process: row.pid,
        command: row.command,
        operation: row.operation.to_owned(),
        count: row.count,
        nanos: row.nanos,
    };
    Ok(Told::Profile(MountProfile {
        nanos: u64::try_from(found.took.as_nanos()).unwrap_or(u64::MAX),
        rows: found.rows.into_iter().map(row).collect(),
        beyond: found.beyond,
    }))
}

/// The answer to a ping.
pub fn pong(data: &DataFs) -> Told {
    Told::Pong { pid: std::process::id(), unstored: data.dirty_bytes() + data.lost_bytes() }
}

/// Makes durable what programs wrote through the mount, and all changes of the volume.
pub fn sync(client: &Client, data: &DataFs) -> Result<Told, String> {
    let stored = data.store_all();
    stored.map_err(|errno| {
        format!(
            "cannot store all that programs wrote ({errno}): their next fsync or close fails, too"
        )
    })?;
    let synced = data.store().sync();
    synced.map_err(|error| format!("cannot sync the objects with file data: {error}"))?;
    pando_client::block_on(client.sync_all()).map_err(|errno| {
        format!("a shard has not synced ({errno}): `pando status` of the volume tells which")
    })?;
    Ok(Told::Synced)
}

/// Unmounts. If programs use the mount, `force` detaches it. Else the error names `again`, the
/// command that forces it.
pub fn unmount(mounted: &Mounted, force: bool, again: &str) -> Result<(), String> {
    let Err(error) = mounted.request_unmount() else { return Ok(()) };
    let shown = mounted.mountpoint().display();
    if !force {
        return Err(format!(
            "{error}: programs have files open or work within {shown}. End them (`fuser -m {shown}` lists them), or `{again}`"
        ));
    }
    mounted.detach().map_err(|error| format!("cannot detach the mount at {shown}: {error}"))
}
