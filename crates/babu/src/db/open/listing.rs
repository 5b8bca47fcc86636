//! The files in a folder, and what of them is no longer needed.

use crate::disk::traits::Disk;
use crate::index::format::header::index_name;
use crate::index::format::header::index_number;
use crate::levels::manifest::{Manifest, UNFINISHED_EXPORT};
use crate::log::SealedLog;
use crate::log::log_name;
use crate::log::log_number;
use crate::types::error::{IoContext, IoFailure};

/// Numbers of the log and index files in a folder, ascending.
pub(crate) struct Listing {
    pub(crate) logs: Vec<u64>,
    pub(crate) indexes: Vec<u64>,
    /// The folder is marked as an export that is not finished.
    pub(crate) is_unfinished: bool,
}

impl Listing {
    pub(crate) fn read(disk: &dyn Disk) -> Result<Listing, IoFailure> {
        let names = disk.list().during("list", ".")?;
        let mut logs: Vec<_> = names.iter().filter_map(|name| log_number(name)).collect();
        let mut indexes: Vec<_> = names.iter().filter_map(|name| index_number(name)).collect();
        logs.sort_unstable();
        indexes.sort_unstable();
        let is_unfinished = names.iter().any(|name| name == UNFINISHED_EXPORT);
        Ok(Listing { logs, indexes, is_unfinished })
    }
}

/// Removes files that nothing names, and cuts logs to their end. Logs for which `is_kept` holds are
/// left alone.
pub(crate) fn clean_up(
    disk: &dyn Disk,
    listing: &mut Listing,
    manifest: &Manifest,
    is_kept: impl Fn(u64) -> bool,
    is_named: impl Fn(u64) -> bool,
) -> Result<(), IoFailure> {
    let sealed = |number: u64| -> Option<&SealedLog> {
        let mut named = manifest.kept_logs.iter().chain(&manifest.sealed_logs);
        named.find(|log| log.number == number)
    };
    for &number in listing.logs.iter().filter(|&&number| !is_kept(number)) {
        let name = log_name(number);
        match sealed(number) {
            Some(log) => {
                let file = disk.open(&name).during("open", &name)?;
                if file.len().during("read", &name)? > log.end_offset {
                    file.set_len(log.end_offset).during("cut", &name)?;
                }
            }
            None => disk.remove(&name).during("remove", &name)?,
        }
    }
    for &number in listing.indexes.iter().filter(|&&number| !is_named(number)) {
        let name = index_name(number);
        disk.remove(&name).during("remove", &name)?;
    }
    listing.logs.retain(|&number| is_kept(number) || sealed(number).is_some());
    listing.indexes.retain(|&number| is_named(number));
    Ok(())
}
