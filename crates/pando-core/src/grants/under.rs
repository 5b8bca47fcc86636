//! Requests of a holder that change its part by a transaction, while the part stays lent
//! (docs/design/under-a-loan.md).

use alloc::vec::Vec;
use pando_types::lend::{Amendment, LentRow, Standing, UnderLoan};
use pando_types::op::{Op, Request};
use pando_types::peer::{Peer, Prepare};
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
        let Some(under) = request.head.under else { return Ok(None) };
        let (dir, name) = match &request.op {
            Op::Mkdir(dir, name, _) | Op::Rmdir(dir, name) => (dir, Some(name)),
            Op::DirSetAttr(dir, _) => (dir, None),
            _ => return Ok(None),
        };
        let held = self.grants.get(under.grant).filter(|held| held.grant.key == key);
        let Some(part) = held.filter(|held| says(&held.grant, under)).map(|it| it.grant.part)
        else {
            return Ok(None);
        };
        let is_its = self.grants.get(under.grant).map(|it| it.grant.session)
            == Some(request.head.id.session);
        let header = self.header_of(ctx, dir.id, part.partition)?;
        let covers = header.is_some_and(|it| match name {
            Some(name) => it.range().contains(&self.order(name).0),
            None => it.partition.0 == 0 && it.radix.0 == 0,
        });
        Ok((is_its && part.dir == *dir && covers).then_some(under.grant))
    }

    /// The grant whose part a transaction's step passes.
    pub(crate) fn passes_under(&self, peer: &Peer, prepare: &Prepare) -> Option<TxnId> {
        let (behalf, is_own) = (peer.behalf, peer.from == self.config.shard);
        let may = match prepare {
            Prepare::Name { .. } => true,
            Prepare::Home(_) | Prepare::Partition { seal: false, .. } => is_own,
            _ => false,
        };
        let grant = behalf.under.filter(|_| may)?;
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
        let passed = ctx.under.take();
        let counted = self.count_amendment(ctx, request, passed);
        let entry = request.head.entry.filter(|_| matches!(request.op, Op::DirSetAttr(..)));
        // It tells that the request has run now, and not before.
        counted.or(entry.map(|grant| Amendment { grant, rows: Vec::new() }))
    }

    fn count_amendment(
        &mut self,
        ctx: &mut Ctx<'_>,
        request: &Request,
        passed: Option<TxnId>,
    ) -> Option<Amendment> {
        let (generation, under) = (passed?, request.head.under?);
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
        let is_entry = || keys::order_of(key).is_some_and(|order| orders.contains(&order.0));
        keys::dir_of(key) == Some(dir)
            && match keys::kind_of(key) {
                Some(kind) if kind == Kind::Entry as u8 => is_entry(),
                Some(kind) => kind == Kind::Content as u8,
                None => false,
            }
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
