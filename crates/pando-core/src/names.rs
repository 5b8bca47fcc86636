//! Entries by name: finding, putting, removing, with the ordinals that tell apart names of one
//! order.

use alloc::vec::Vec;
use pando_types::peer::EntryValue;
use pando_types::{DirId, Errno, FileKind, Name, Order};

use crate::contract::Halt;
use crate::ctx::{Ctx, Stop};
use crate::keys;
use crate::record::{Entry, Header, Record};
use crate::shard::Shard;
use crate::sightings;

/// An entry that was found.
#[derive(Debug)]
pub struct FoundEntry {
    /// Its order, ordinal included.
    pub order: Order,
    /// What it leads to.
    pub value: EntryValue,
    /// To be kept when it is written again.
    pub crowded: bool,
}

impl FoundEntry {
    /// Kind of what it leads to.
    pub fn kind(&self) -> FileKind {
        kind(&self.value)
    }
}

/// Kind of what an entry leads to.
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

/// What came of looking for a name.
pub enum Sought {
    /// Its entry.
    Found(FoundEntry),
    /// There is none.
    Absent(Vacancy),
}

/// A name that was not found, for [`insert_at`]: what stands at its order with ordinal 0.
pub struct Vacancy(Option<Entry>);

/// The entry of `name`, whose order (ordinal 0) is `base`.
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

/// The same; and where there is none, what [`insert_at`] must know.
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

/// Of what stands at ordinal 0, if that is the name's entry or nothing.
fn sought(order: Order, entry: sightings::Entry) -> Sought {
    match entry {
        Some((value, crowded)) => Sought::Found(FoundEntry { order, value, crowded }),
        None => Sought::Absent(Vacancy(None)),
    }
}

/// Puts an entry that is absent, and returns its order. `ENOSPC` if 16 names share the order: with
/// a secret hash of 58 bits nobody will ever see it.
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

/// The same, of a name that this very input has sought without finding it, and has written nothing
/// at its order since.
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

/// Writes an entry that is there again.
pub fn update(ctx: &mut Ctx<'_>, dir: DirId, found: &FoundEntry, name: &Name, value: EntryValue) {
    let entry = Entry { crowded: found.crowded, is: Some((name.clone(), value)) };
    ctx.put(key(dir, found.order), entry.encode());
}

/// Removes an entry.
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

/// One entry more (or less) in a partition, now.
pub fn count(ctx: &mut Ctx<'_>, dir: DirId, header: &Header, entries: i64, subdirs: i64) {
    let mut header = ctx.header(dir, header.range().start).unwrap_or(header).clone();
    header.entries = header.entries.wrapping_add_signed(entries);
    header.subdirs = header.subdirs.wrapping_add_signed(subdirs);
    header.change += 1;
    header.mtime = ctx.time_after(header.mtime);
    ctx.set_header(dir, header);
}

impl Shard {
    /// Order of a name, ordinal 0.
    pub(crate) fn order(&self, name: &Name) -> Order {
        // Several parts of one operation ask, and mostly the one before was about the same name.
        let last = self.last_order.take();
        let order = match &last {
            Some((known, order)) if known == name => *order,
            _ => {
                let order = self.config.secrets.order(name.as_bytes());
                self.last_order.set(Some((name.clone(), order)));
                return order;
            }
        };
        self.last_order.set(last);
        order
    }
}
