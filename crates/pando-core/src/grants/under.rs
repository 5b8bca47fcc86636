//! Requests of a holder that change a name in its part by a transaction, while the part stays lent
//! (docs/design/under-a-loan.md).

use alloc::vec::Vec;
use pando_types::lend::{Amendment, LentRow, Standing, UnderLoan};
use pando_types::op::{Op, Request};
use pando_types::peer::Behalf;
use pando_types::{DirId, DirRef, KeyId, Name, TxnId};

use crate::contract::{Halt, Write};
use crate::records::keys::{self, Kind};
use crate::records::record::{Grant, Header, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;

impl Shard {
    /// The grant whose part a request passes: it is that of its session, and the holder has said
    /// all that it did before.
    pub(crate) fn admitted_under(
        &mut self,
        ctx: &Ctx<'_>,
        key: KeyId,
        request: &Request,
    ) -> Result<Option<TxnId>, Halt> {
        let (Some(under), Op::Mkdir(dir, name, _) | Op::Rmdir(dir, name)) =
            (request.head.under, &request.op)
        else {
            return Ok(None);
        };
        let held = self.grants.get(under.grant).filter(|held| held.grant.key == key);
        let Some(part) = held.filter(|held| says(&held.grant, under)).map(|it| it.grant.part)
        else {
            return Ok(None);
        };
        let is_its = self.grants.get(under.grant).map(|it| it.grant.session)
            == Some(request.head.id.session);
        let header = self.header_of(ctx, dir.id, part.partition)?;
        let covers = header.is_some_and(|it| it.range().contains(&self.order(name).0));
        Ok((is_its && part.dir == *dir && covers).then_some(under.grant))
    }

    /// The grant whose part a transaction's step passes.
    pub(crate) fn passes_under(&self, behalf: Behalf) -> Option<TxnId> {
        let grant = behalf.under?;
        let held = &self.grants.get(grant)?.grant;
        let stands = held.standing == Standing::Stands && held.session == behalf.session;
        stands.then_some(grant)
    }

    /// Wants back the part whose lock a step has passed, as its transaction was undone. Its holder
    /// may have heard of a decision that was lost since.
    pub(crate) fn recall_passed(&mut self, ctx: &Ctx<'_>, dir: DirRef, name: &Name) {
        let order = self.order(name);
        if let Ok(header) = self.find_header(ctx, dir, order) {
            self.recall_lock(ctx.now, LockKey::Partition(dir.id, header.partition));
        }
    }

    /// Counts what a request has changed in the part of its session, and tells the rows. `None`:
    /// the part is not lent any more, or not as the holder knows it, or nothing is counted.
    pub(crate) fn amend(&mut self, ctx: &mut Ctx<'_>, request: &Request) -> Option<Amendment> {
        let (passed, under) = (ctx.under.take(), request.head.under?);
        let generation = match request.op {
            Op::Mkdir(..) | Op::Rmdir(..) => passed?,
            // It tells that the request has run now, and not before.
            Op::DirSetAttr(..) => return Some(Amendment { grant: under.grant, rows: Vec::new() }),
            _ => return None,
        };
        let held = self.grants.get(generation)?;
        let is_its = held.grant.session == request.head.id.session && says(&held.grant, under);
        if !is_its || under.grant != generation {
            return None;
        }
        let mut grant = held.grant.clone();
        #[cfg(feature = "planted")]
        let counts = !self.is_planted(crate::Planted::AmendmentNotCounted);
        #[cfg(not(feature = "planted"))]
        let counts = true;
        grant.amended += u64::from(counts);
        let rows = rows_in(ctx, grant.part.dir.id, under_start(ctx, &grant)?);
        ctx.put(keys::grant(generation), grant.encode());
        self.grants.update(generation, grant);
        Some(Amendment { grant: generation, rows })
    }
}

/// Whether the holder knows how far the grant has come.
fn says(grant: &Grant, under: UnderLoan) -> bool {
    grant.standing == Standing::Stands
        && grant.applied + 1 == under.next.get()
        && grant.amended == under.amendments
}

/// The header of a grant's part, as this input has changed it.
fn under_start(ctx: &Ctx<'_>, grant: &Grant) -> Option<Header> {
    let (dir, partition) = (grant.part.dir.id, grant.part.partition);
    let its = ctx.headers().iter().find(|(of, it)| *of == dir && it.partition == partition);
    its.map(|(_, header)| header.clone())
}

/// The rows of a part that this input has changed.
fn rows_in(ctx: &Ctx<'_>, dir: DirId, header: Header) -> Vec<LentRow> {
    let orders = header.range();
    let is_in = |key: &[u8]| {
        keys::dir_of(key) == Some(dir)
            && keys::kind_of(key) == Some(Kind::Entry as u8)
            && keys::order_of(key).is_some_and(|order| orders.contains(&order.0))
    };
    let entries = ctx.writes().filter_map(|write| match write {
        Write::Put(key, value) if is_in(key) => Some(LentRow(key.clone(), value.clone())),
        Write::Delete(key) if is_in(key) => Some(LentRow(key.clone(), Vec::new())),
        _ => None,
    });
    let mut rows: Vec<_> = entries.collect();
    rows.push(LentRow(keys::dir(dir, Kind::Header, orders.start), header.encode()));
    rows
}
