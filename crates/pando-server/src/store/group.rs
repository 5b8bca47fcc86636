//! An insert group in the log: its meta data, and its largest size.
//!
//! Meta data of a log group, little-endian: version (1) ‖ session u64 ‖ slot u16 ‖ sequence u64 ‖
//! time u64.

use babu::Db;
use pando_core::contract::{GroupMeta, Write};

/// Most log bytes of a group besides its changes: header, meta data, and padding up to the next
/// group.
const GROUP_BYTES: u64 = 48 + 27 + 8;

const META_VERSION: u8 = 1;

/// Largest size that an insert group can have in the log, bytes.
pub fn weigh(writes: &[Write]) -> u64 {
    // A record has one byte of kind, and lengths of at most five bytes each.
    let of = |write: &Write| match write {
        Write::Put(first, second) | Write::DeleteRange(first, second) => {
            11 + first.len() + second.len()
        }
        Write::Delete(key) => 6 + key.len(),
    };
    GROUP_BYTES + writes.iter().map(of).sum::<usize>() as u64
}

pub(crate) fn encode_meta(meta: &GroupMeta) -> [u8; 27] {
    let mut bytes = [0; 27];
    bytes[0] = META_VERSION;
    bytes[1..9].copy_from_slice(&meta.request.session.0.to_le_bytes());
    bytes[9..11].copy_from_slice(&meta.request.slot.to_le_bytes());
    bytes[11..19].copy_from_slice(&meta.request.sequence.to_le_bytes());
    bytes[19..].copy_from_slice(&meta.now.to_le_bytes());
    bytes
}

pub(crate) fn last_nanos(db: &Db, last: babu::Lsn) -> u64 {
    let Ok(groups) = db.log_groups_from(last) else { return 0 };
    let metas = groups.flatten().map(|group| group.meta);
    let times = metas.filter(|meta| meta.len() == 27 && meta[0] == META_VERSION);
    let nanos = |meta: Vec<u8>| u64::from_le_bytes(meta[19..].try_into().unwrap_or_default());
    times.map(nanos).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use babu::Batch;

    use super::*;

    #[test]
    fn no_group_takes_more_than_it_weighs() {
        for (count, len) in [(0, 0), (1, 3), (7, 200), (900, 70_000)] {
            let key = |n: usize| vec![n as u8; len.min(200)];
            let writes: Vec<_> = (0..count)
                .map(|n| match n % 3 {
                    0 => Write::Put(key(n), vec![n as u8; len]),
                    1 => Write::Delete(key(n)),
                    _ => Write::DeleteRange(key(n), key(n + 1)),
                })
                .collect();
            let mut batch = Batch::new();
            for write in &writes {
                match write {
                    Write::Put(key, value) => batch.put(key, value),
                    Write::Delete(key) => batch.delete(key),
                    Write::DeleteRange(from, to) => batch.delete_range(from, to),
                }
            }
            let (taken, weight) = (batch.log_bytes(27), weigh(&writes));
            assert!(taken <= weight, "{taken} {weight}");
        }
    }
}
