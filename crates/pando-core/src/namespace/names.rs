//! Entries by name: finding, inserting, updating and removing them. Names of one order are told
//! apart by ordinals.

use alloc::vec::Vec;
use pando_types::peer::EntryValue;
use pando_types::{DirId, DirRef, Errno, FileKind, Name, Order};

use crate::contract::Halt;
use crate::records::keys;
use crate::records::record::{Entry, Header, Record};
use crate::state::ctx::Ctx;
use crate::state::lookup_cache;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

/// An entry that was found by its name.
#[derive(Debug)]
pub struct FoundEntry {
    /// Order of the entry, with its ordinal.
    pub order: Order,
    /// What the name leads to.
    pub value: EntryValue,
    /// Whether the record says that other names of this order may exist. An update keeps it.
    pub crowded: bool,
}

impl FoundEntry {
    /// Kind of the file or directory to which the name leads.
    pub fn kind(&self) -> FileKind {
        kind(&self.value)
    }
}

/// Kind of the file or directory to which an entry leads.
pub fn kind(value: &EntryValue) -> FileKind {
    match value {
        EntryValue::File(inode) => inode.attr.kind,
        EntryValue::Linked(_, kind) => *kind,
        EntryValue::Dir(_) => FileKind::Directory,
    }
}

fn key(dir: DirId, order: Order) -> Vec<u8> {
    keys::entry(dir, order).to_vec()
}

const ORDINALS: u8 = 1 << Order::ORDINAL_BITS;

/// Result of a search for a name.
pub enum Sought {
    /// The name's entry.
    Found(FoundEntry),
    /// The name has no entry.
    Absent(Vacancy),
}

/// A name that was not found, for [`insert_at`]. It holds the record with ordinal 0 at the name's
/// order, if there is one.
pub struct Vacancy(Option<Entry>);

/// The entry of `name`; `None`: there is none. `base` is the name's order with ordinal 0.
pub fn find(
    ctx: &Ctx<'_>,
    dir: DirId,
    base: Order,
    name: &Name,
) -> Result<Option<FoundEntry>, Halt> {
    Ok(match seek(ctx, dir, base, name)? {
        Sought::Found(entry) => Some(entry),
        Sought::Absent(_) => None,
    })
}

/// Searches for `name`. `base` is the name's order with ordinal 0. For an absent name the result
/// holds what [`insert_at`] needs.
pub fn seek(ctx: &Ctx<'_>, dir: DirId, base: Order, name: &Name) -> Result<Sought, Halt> {
    if let Some(entry) = ctx.sighted(dir, base, name) {
        return Ok(sought(base, entry));
    }
    let found = ctx.load_by(&keys::entry(dir, base), |bytes| Entry::decode_of(name, bytes))?;
    let first = match found {
        None => {
            ctx.sight(dir, base, name, &None);
            return Ok(sought(base, None));
        }
        Some(Ok(entry)) => {
            let entry = Some(entry);
            ctx.sight(dir, base, name, &entry);
            return Ok(sought(base, entry));
        }
        Some(Err(first)) if !first.crowded => return Ok(Sought::Absent(Vacancy(Some(first)))),
        Some(Err(first)) => first,
    };
    for ordinal in 1..ORDINALS {
        let order = base.with_ordinal(ordinal);
        if let Some(Entry { is: Some((found, value)), .. }) =
            ctx.load::<Entry>(&keys::entry(dir, order))?
            && found == *name
        {
            return Ok(Sought::Found(FoundEntry { order, value, crowded: false }));
        }
    }
    Ok(Sought::Absent(Vacancy(Some(first))))
}

/// The result for a name from the record with ordinal 0, which is the name's entry or missing.
fn sought(order: Order, entry: lookup_cache::Entry) -> Sought {
    match entry {
        Some((value, crowded)) => Sought::Found(FoundEntry { order, value, crowded }),
        None => Sought::Absent(Vacancy(None)),
    }
}

/// Inserts an absent name, and returns its order. `ENOSPC`: 16 names share the order. With a secret
/// hash of 58 bits that does not happen in practice.
pub fn insert(
    ctx: &mut Ctx<'_>,
    dir: DirId,
    base: Order,
    name: &Name,
    value: EntryValue,
) -> Result<Order, Stop> {
    let first = ctx.load::<Entry>(&keys::entry(dir, base))?;
    insert_at(ctx, dir, base, name, value, Vacancy(first))
}

/// Inserts a name that this input has sought in vain, and returns its order. The input must have
/// written nothing at that order since. `ENOSPC`: 16 names share the order.
pub fn insert_at(
    ctx: &mut Ctx<'_>,
    dir: DirId,
    base: Order,
    name: &Name,
    value: EntryValue,
    vacancy: Vacancy,
) -> Result<Order, Stop> {
    let is = Some((name.clone(), value));
    let Vacancy(Some(first)) = vacancy else {
        ctx.put(key(dir, base), Entry { crowded: false, is }.encode());
        return Ok(base);
    };
    if first.is.is_none() {
        ctx.put(key(dir, base), Entry { crowded: true, is }.encode());
        return Ok(base);
    }
    for ordinal in 1..ORDINALS {
        let order = base.with_ordinal(ordinal);
        if ctx.get(&key(dir, order))?.is_none() {
            ctx.put(key(dir, base), Entry { crowded: true, ..first }.encode());
            ctx.put(key(dir, order), Entry { crowded: false, is }.encode());
            return Ok(order);
        }
    }
    Err(Errno::ENOSPC.into())
}

/// Overwrites an entry that exists.
pub fn update(ctx: &mut Ctx<'_>, dir: DirId, found: &FoundEntry, name: &Name, value: EntryValue) {
    let entry = Entry { crowded: found.crowded, is: Some((name.clone(), value)) };
    ctx.put(key(dir, found.order), entry.encode());
}

/// Removes an entry. The record with ordinal 0 stays while other names share its order.
pub fn remove(ctx: &mut Ctx<'_>, dir: DirId, found: &FoundEntry) -> Result<(), Halt> {
    let base = found.order.base();
    if found.order == base {
        if found.crowded {
            ctx.put(key(dir, base), Entry { crowded: true, is: None }.encode());
        } else {
            ctx.delete(key(dir, base));
        }
        return Ok(());
    }
    ctx.delete(key(dir, found.order));
    for ordinal in 1..ORDINALS {
        if ctx.get(&key(dir, base.with_ordinal(ordinal)))?.is_some() {
            return Ok(());
        }
    }
    match ctx.load::<Entry>(&keys::entry(dir, base))? {
        Some(Entry { is: None, .. }) => ctx.delete(key(dir, base)),
        Some(first) => ctx.put(key(dir, base), Entry { crowded: false, ..first }.encode()),
        None => {}
    }
    Ok(())
}

/// Adds to the counts of a partition, and notes one change of names at the present time.
pub fn count(ctx: &mut Ctx<'_>, dir: DirId, header: &Header, entries: i64, subdirs: i64) {
    let mut header = ctx.header(dir, header.range().start).unwrap_or(header).clone();
    header.entries = header.entries.wrapping_add_signed(entries);
    header.subdirs = header.subdirs.wrapping_add_signed(subdirs);
    header.change += 1;
    header.mtime = ctx.time_after(header.mtime);
    ctx.set_header(dir, header);
}

impl Shard {
    /// Order of a name, with ordinal 0.
    pub(crate) fn order(&self, name: &Name) -> Order {
        self.namespace.order(name, |name| self.config.secrets.order(name.as_bytes()))
    }
}

pub fn is_dir(value: &EntryValue, dir: DirRef) -> bool {
    matches!(value, EntryValue::Dir(access) if access.dir == dir)
}
