//! A digest of what a change of a lent part wrote, to tell whether holder and shard came to the
//! same rows. Times are left out: the shard may have taken its own. It finds faults, not liars: a
//! holder may do what an element says in any case.

use pando_types::peer::EntryValue;
use pando_types::{Attr, Timestamp};

use crate::contract::{Halt, Write};
use crate::records::keys::{self, Kind};
use crate::records::record::{Content, Entry, Header, Record};
use crate::state::ctx::Ctx;

/// FNV-1a, 64 bits: it is the same on every machine.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// The digest of what an input has written of directories.
pub fn digest(ctx: &Ctx<'_>) -> Result<u64, Halt> {
    let mut sum = Fnv(0xCBF2_9CE4_8422_2325);
    for write in ctx.writes() {
        match write {
            Write::Put(key, value) if keys::kind_of(key).is_some() => {
                sum.add(key);
                match keys::kind_of(key) {
                    Some(kind) if kind == Kind::Entry as u8 => {
                        sum.add(&timeless(Entry::decode(value)?).encode());
                    }
                    Some(kind) if kind == Kind::Content as u8 => {
                        let mut content = Content::decode(value)?;
                        forget_times(&mut content.base);
                        sum.add(&content.encode());
                    }
                    _ => sum.add(value),
                }
            }
            Write::Delete(key) if keys::kind_of(key).is_some() => sum.add(key),
            Write::DeleteRange(from, to) if keys::kind_of(from).is_some() => {
                sum.add(from);
                sum.add(to);
            }
            _ => {}
        }
    }
    for (dir, header) in ctx.headers() {
        sum.add(&dir.0);
        sum.add(&Header { mtime: Timestamp::default(), ..header.clone() }.encode());
    }
    Ok(sum.0)
}

fn timeless(mut entry: Entry) -> Entry {
    if let Some((_, EntryValue::File(inode))) = &mut entry.is {
        forget_times(&mut inode.attr);
    }
    entry
}

fn forget_times(attr: &mut Attr) {
    for time in [&mut attr.atime, &mut attr.mtime, &mut attr.ctime, &mut attr.btime] {
        *time = Timestamp::default();
    }
}
