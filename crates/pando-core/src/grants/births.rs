//! Directories that are lent with their birth: to the session that makes them.
//!
//! ```text
//!  holder                 coordinator                      home
//!   | -- Mkdir(borrows) ---->| -- Prepare(NewHome) ---------->|
//!   |                        |<------- Voted(Lends(inos)) ----|
//!   |<-- Born(rows, inos) ---|  decides; syncs
//!   answers its programs     |
//!   | -- Stream(elements) ------------------------------------>|  Awaited: not decided here
//!   |                        | -- Finish(NewLentHome) -------->|  content, header and grant: one group
//!   | -- Stream(elements) ------------------------------------>|  applied
//! ```
//!
//! The grant is written with the directory, so none of them is without the other after a loss of
//! power, and no sync is waited for. The decision comes again as long as it may be lost there.

use alloc::vec;
use alloc::vec::Vec;
use pando_types::lend::{Birth, Born, Inos, LentPage, LentRow, Loan, Part};
use pando_types::peer::Prepare;
use pando_types::reply::Body;
use pando_types::{Attr, DirId, DirRef, KeyId, Name, PartitionIndex, SessionId, TxnId};

use crate::grants::lend::GRANTS_MAX;
use crate::namespace::attrs::new_dir_attr;
use crate::records::format::{first_content, first_header};
use crate::records::keys::{self, Kind};
use crate::records::record::Record;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;

/// Numbers of inodes that such a holder gets at first: more than it may use before it hears of the
/// next.
const INOS: u64 = 512;

impl Shard {
    /// The key of a session to which this shard may lend what it makes; `None`: it lends nothing.
    pub(crate) fn bears_for(&self, ctx: &Ctx<'_>, session: SessionId) -> Option<KeyId> {
        let key = self.sessions.key_of(session).filter(|_| !session.is_local())?;
        let may = self.config.lends
            && !ctx.now.is_full
            && self.sessions.is_alive(session)
            && self.grants.count_of(session) < GRANTS_MAX
            && !self.grants.pauses.is_barred(key, ctx.now.nanos);
        may.then_some(key)
    }

    /// Numbers of inodes for a directory that may be lent to the session which makes it here.
    pub(crate) fn inos_for_birth(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        id: DirId,
    ) -> Option<Inos> {
        self.bears_for(ctx, session)?;
        // A hash slot that is handed over waits for what is lent of it.
        let moves = self.is_handed_over(id, PartitionIndex(0));
        // The holder uses these before anything of this is durable.
        let may = !moves && self.numbers.has_durable(ctx.now.durable, INOS);
        may.then(|| self.numbers.inos(ctx, INOS))
    }

    /// Records that a new directory is lent. Its rows are in the same insert group.
    pub(crate) fn lend_at_birth(&mut self, ctx: &mut Ctx<'_>, dir: DirRef, birth: Birth) {
        let Birth { grant: generation, session, key, inos, .. } = birth;
        let part = Part { dir, partition: PartitionIndex(0) };
        self.give(ctx, generation, part, ((session, key), inos));
        // Whoever waits for the transaction wants the part back now.
        self.queue.resume(self.locks.wake(LockKey::Home(dir.id)));
        if self.is_handed_over(dir.id, PartitionIndex(0)) {
            self.recall_grant(ctx.now, generation);
        }
    }

    /// What the session is told that has made a directory which is lent to it.
    pub(crate) fn born(
        &self,
        (dir, base): (DirRef, Attr),
        (parent, name): (DirRef, &Name),
        birth: Birth,
    ) -> Body {
        let header = first_header(&base);
        let content = first_content(base.clone(), parent, name);
        let rows = Vec::from([
            LentRow(keys::dir(dir.id, Kind::Content, 0), content.encode()),
            LentRow(keys::dir(dir.id, Kind::Header, 0), header.encode()),
        ]);
        let loan = Loan {
            grant: birth.grant,
            partition: PartitionIndex(0),
            inos: vec![birth.inos],
            entries_max: self.lent_entries_max(dir.id, &header),
        };
        let page = LentPage { rows, ..LentPage::default() };
        let born = Born { home: birth.home, loan, page };
        Body::Born(dir, new_dir_attr(base, birth.home), born.into())
    }

    /// Whether the directory of a grant that this shard does not know may yet be made: here, or
    /// elsewhere as this shard decides or has decided.
    pub(crate) fn awaits_birth(&self, grant: TxnId) -> bool {
        let mut prepared = self.participant.prepared_in(grant);
        prepared.any(|prepare| matches!(prepare, Prepare::NewHome(_)))
            || grant.shard == self.config.shard && self.coordinator.has(grant.number)
    }
}
