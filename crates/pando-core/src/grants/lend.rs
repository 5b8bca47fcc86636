//! A session borrows a part, and reads its rows.

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::lend::{
    Inos, LentPage, LentRow, LentRows, Loan, Part, PartOpen, Standing, request_epoch,
};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirId, DirRef, Errno, Ino, KeyId, Order, SessionId, TxnId};

use crate::contract::{Halt, Need};
use crate::grants::gate::locks_of;
use crate::records::keys::{self, Kind, Table};
use crate::records::record::{Entry, Grant, Header, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, bad_key};

/// Most grants of a session at one shard, with those that are over and not yet known to be.
pub const GRANTS_MAX: usize = 4_096;
/// Numbers of inodes that a holder gets at first.
const INOS: u64 = 2_048;
/// Fewest numbers that it gets later.
const INOS_MIN: u64 = 512;
/// Most numbers that it gets at a time.
const INOS_MAX: u64 = 32_768;

/// How many numbers of inodes a holder gets that has changed its part so often: as many as it may
/// use until the shard is durable. So what is left over is in proportion to what was used.
pub fn inos_after(applied: u64) -> u64 {
    applied.saturating_mul(2).clamp(INOS_MIN, INOS_MAX)
}
/// Most entries of a part that cannot split, if it is lent: its holder reads them all.
const UNSPLIT_MAX: u64 = 65_536;
/// Bytes at which a page of rows ends.
const PAGE_BYTES: usize = 256 << 10;

impl Shard {
    /// Loads the grants from their records, at the start. Each holder has a whole hold from now on.
    pub(crate) fn load_grants(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Grant);
        for (key, value) in ctx.rows(&prefix, &keys::after(&prefix))? {
            let generation = keys::grant_of(&key).ok_or_else(|| bad_key(Table::Grant))?;
            self.enter_grant(generation, Grant::decode(&value)?, ctx.now.nanos);
        }
        Ok(())
    }

    fn enter_grant(&mut self, generation: TxnId, grant: Grant, now: u64) {
        if grant.is_lent() {
            for key in self.locks_of_part(grant.part) {
                self.locks.lend(key, generation);
            }
        }
        self.grants.enter(generation, grant, now);
    }

    /// The locks of a grant of this part.
    pub(crate) fn locks_of_part(&self, part: Part) -> Vec<LockKey> {
        locks_of(part.dir.id, part.partition, self.is_home(part.dir.id))
    }

    /// The header of the part with an order of a directory, for which a session asks.
    pub(crate) fn header_for(
        &mut self,
        ctx: &Ctx<'_>,
        session: SessionId,
        (dir, order): (DirRef, Order),
    ) -> Result<Header, Stop> {
        if !self.sessions.is_alive(session) {
            return Err(Refusal::NoSession.into());
        }
        match self.find_header(ctx, dir, order) {
            // The holder's requests wait for the answer: they are better off at the shard.
            Err(Stop::Wait(_)) => Err(Errno::EAGAIN.into()),
            found => found,
        }
    }

    /// Runs [`pando_types::op::Op::Borrow`].
    pub(crate) fn borrow_part(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: KeyId,
        (session, number): (SessionId, u64),
        (dir, order): (DirRef, Order),
    ) -> Result<Ran, Stop> {
        if !self.config.lends || session.is_local() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let header = self.header_for(ctx, session, (dir, order))?;
        let part = Part { dir, partition: header.partition };
        let (partition, entries_max) = (header.partition, self.lent_entries_max(dir.id, &header));
        if let Some((grant, inos)) = self.is_lent_to(session, part) {
            let page = self.first_page(ctx, session, part.dir.id, &header)?;
            let loan = Loan { grant, partition, inos, entries_max };
            return Ok(Ran::Answer(Body::Lent(loan, page), Need::Synced));
        }
        // A copy that comes late would get a grant of which its holder does not know.
        let is_its_own = request_epoch(number) == ctx.now.epoch;
        if !is_its_own || !self.grants.is_new_request(session, number, false) {
            return Err(Errno::EAGAIN.into());
        }
        if !self.may_lend(ctx, (key, session), part, &header)? {
            self.recall_reads(ctx.now, (part.dir.id, part.partition));
            return Err(Errno::EAGAIN.into());
        }
        self.end_own_read(ctx, session, part);
        let page = self.first_page(ctx, session, part.dir.id, &header)?;
        let generation = self.numbers.txn(ctx);
        #[cfg(feature = "planted")]
        let generation = match self.is_planted(crate::Planted::GenerationReused) {
            true => self.grants.all().find(|(_, it)| !it.grant.is_lent()).map(|(id, _)| id),
            false => None,
        }
        .unwrap_or(generation);
        let inos = self.numbers.inos(ctx, INOS);
        self.give(ctx, generation, part, ((session, key), inos));
        self.counters.parts_lent_split += u64::from(header.radix.0 > 0);
        let inos = Vec::from([inos]);
        let loan = Loan { grant: generation, partition, inos, entries_max };
        // The holder's changes must not outlive the grant, nor the rows that it reads.
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::LentUnsynced) {
            return Ok(Ran::Answer(Body::Lent(loan, page), Need::Committed));
        }
        Ok(Ran::Answer(Body::Lent(loan, page), Need::Synced))
    }

    /// Records that a part is lent to a session.
    pub(crate) fn give(
        &mut self,
        ctx: &mut Ctx<'_>,
        generation: TxnId,
        part: Part,
        ((session, key), inos): ((SessionId, KeyId), Inos),
    ) {
        let grant = Grant {
            part,
            session,
            key,
            applied: 0,
            amended: 0,
            inos: Vec::from([inos]),
            standing: Standing::Stands,
            over_at: 0,
        };
        ctx.put(keys::grant(generation), grant.encode());
        self.enter_grant(generation, grant, ctx.now.nanos);
        self.counters.parts_lent += 1;
    }

    /// The first rows of a part, with what the session has open in it.
    fn first_page(
        &self,
        ctx: &Ctx<'_>,
        session: SessionId,
        dir: DirId,
        header: &Header,
    ) -> Result<LentPage, Halt> {
        let orders = header.range();
        let has_content = header.partition.0 == 0 && self.is_home(dir);
        let mut page = part_page(ctx, dir, &orders, has_content, &[])?;
        page.opens = self.part_opens(session, dir, &orders);
        Ok(page)
    }

    /// The grant of a part that the session has, and has not used.
    fn is_lent_to(&self, session: SessionId, part: Part) -> Option<(TxnId, Vec<Inos>)> {
        let (generation, _) = self.locks.hold(LockKey::Partition(part.dir.id, part.partition))?;
        let grant = &self.grants.get(generation)?.grant;
        let is_new = (grant.applied, grant.amended) == (0, 0) && grant.standing == Standing::Stands;
        let is_its = (grant.session, grant.part) == (session, part);
        (is_new && is_its).then(|| (generation, grant.inos.clone()))
    }

    /// Most entries of a part that is lent: so many that it is about to split, if it can.
    pub(crate) fn lent_entries_max(&self, dir: DirId, header: &Header) -> u64 {
        let threshold = self.threshold(dir, header.partition);
        if self.may_split(header) { threshold } else { threshold.max(UNSPLIT_MAX) }
    }

    /// Whether nobody but the session uses a part, and nothing is about to happen to it.
    fn may_lend(
        &self,
        ctx: &Ctx<'_>,
        (key, session): (KeyId, SessionId),
        part: Part,
        header: &Header,
    ) -> Result<bool, Halt> {
        let (dir, orders) = (part.dir.id, header.range());
        let reads = self.grants.reads();
        let is_read = reads.is_read_by_others((dir, part.partition), session);
        let is_free = |lock: &LockKey| match self.locks.hold(*lock) {
            None => true,
            Some((_, Hold::Read)) => !is_read,
            Some(_) => false,
        };
        Ok(self.locks_of_part(part).iter().all(is_free)
            // A session that has not heard of the shard's start may read any part.
            && !reads.has_whole_of_others(session)
            && !self.is_handed_over(dir, part.partition)
            && !self.grants.pauses.is_paused((dir, part.partition), ctx.now.nanos)
            && self.grants.count_of(session) < GRANTS_MAX
            && !self.grants.pauses.is_barred(key, ctx.now.nanos)
            && header.entries <= self.lent_entries_max(dir, header)
            && !ctx.now.is_full
            && self.is_quiet(dir, &orders)
            && !self.is_open_by_others(ctx, session, dir, (&orders, header.entries))?)
    }

    /// Whether another session has a file of a range open. Looks at the opens or at the entries,
    /// whichever are fewer.
    fn is_open_by_others(
        &self,
        ctx: &Ctx<'_>,
        session: SessionId,
        dir: DirId,
        (orders, entries): (&Range<u64>, u64),
    ) -> Result<bool, Halt> {
        let opens = &self.namespace.opens;
        if opens.count() as u64 <= entries {
            return Ok(opens.in_range(dir, orders).iter().any(|open| open.session != session));
        }
        let mut is_any = false;
        self.visit_inos(ctx, dir, orders, &mut |_, ino| {
            is_any = opens.by_others(ino, session);
            !is_any
        })?;
        Ok(is_any)
    }

    /// Visits the files of a range that have their inode in the entry, until `visit` returns false.
    fn visit_inos(
        &self,
        ctx: &Ctx<'_>,
        dir: DirId,
        orders: &Range<u64>,
        visit: &mut dyn FnMut(Order, Ino) -> bool,
    ) -> Result<(), Halt> {
        let (from, to) = keys::dir_range(dir, Kind::Entry, orders);
        let mut bad = None;
        ctx.scan(&from, &to, &mut |key, value| match Entry::decode(value) {
            Ok(entry) => match (keys::order_of(key), entry.file()) {
                (Some(order), Some(inode)) => visit(order, inode.attr.ino),
                _ => true,
            },
            Err(halt) => {
                bad = Some(halt);
                false
            }
        })?;
        bad.map_or(Ok(()), Err)
    }

    /// Runs [`pando_types::op::Op::LentRows`].
    pub(crate) fn lent_rows(
        &mut self,
        ctx: &Ctx<'_>,
        key: KeyId,
        generation: TxnId,
        which: &LentRows,
    ) -> Result<Body, Stop> {
        let held = self.grants.get(generation).filter(|held| held.grant.key == key);
        let Some(held) = held.filter(|held| held.grant.standing == Standing::Stands) else {
            return Err(Errno::ESTALE.into());
        };
        let (part, session) = (held.grant.part, held.grant.session);
        let Some(header) = self.header_of(ctx, part.dir.id, part.partition)? else {
            return Err(Errno::ESTALE.into());
        };
        let (dir, orders) = (part.dir.id, header.range());
        let page = match which {
            LentRows::Part(from) if from.is_empty() => {
                self.first_page(ctx, session, dir, &header)?
            }
            LentRows::Part(from) => {
                let has_content = part.partition.0 == 0 && self.is_home(dir);
                part_page(ctx, dir, &orders, has_content, from)?
            }
            LentRows::File(order, from) if orders.contains(&order.0) => {
                file_page(ctx, dir, *order, from)?
            }
            LentRows::File(..) => return Err(Errno::EINVAL.into()),
        };
        Ok(Body::LentRows(page))
    }

    fn part_opens(&self, session: SessionId, dir: DirId, orders: &Range<u64>) -> Vec<PartOpen> {
        let opens = self.namespace.opens.in_range(dir, orders).into_iter();
        let its = opens.filter(|open| open.session == session);
        its.map(|open| PartOpen { ino: open.ino, order: Order(open.at), count: open.count })
            .collect()
    }
}

/// Adds the rows of a range to a page, until that is full. Returns whether it is.
fn fill(ctx: &Ctx<'_>, page: &mut LentPage, (from, to): (&[u8], &[u8])) -> Result<bool, Halt> {
    let mut bytes: usize = page.rows.iter().map(|row| row.0.len() + row.1.len()).sum();
    ctx.scan(from, to, &mut |key, value| {
        if bytes >= PAGE_BYTES {
            page.next = key.to_vec();
            return false;
        }
        bytes += key.len() + value.len();
        page.rows.push(LentRow(key.to_vec(), value.to_vec()));
        true
    })?;
    Ok(!page.next.is_empty())
}

/// A page of a part: the directory's own rows, the header, and the entries.
fn part_page(
    ctx: &Ctx<'_>,
    dir: DirId,
    orders: &Range<u64>,
    has_content: bool,
    start: &[u8],
) -> Result<LentPage, Halt> {
    let mut page = LentPage::default();
    let own = (keys::dir(dir, Kind::Content, 0), keys::dir(dir, Kind::Header, 0));
    let header = keys::dir(dir, Kind::Header, orders.start);
    let header = (header.clone(), keys::after(&header));
    let entries = keys::dir_range(dir, Kind::Entry, orders);
    let ranges = has_content.then_some(own).into_iter().chain([header, entries]);
    for (from, to) in ranges {
        let from = from.as_slice().max(start);
        if from < to.as_slice() && fill(ctx, &mut page, (from, &to))? {
            break;
        }
    }
    Ok(page)
}

/// A page of the rows of a file but its entry.
fn file_page(ctx: &Ctx<'_>, dir: DirId, order: Order, start: &[u8]) -> Result<LentPage, Halt> {
    let mut page = LentPage::default();
    for kind in [Kind::Xattr, Kind::Inline, Kind::Slice] {
        let (from, to) = keys::dir_range(dir, kind, &(order.0..order.0 + 1));
        let from = from.as_slice().max(start);
        if from < to.as_slice() && fill(ctx, &mut page, (from, &to))? {
            break;
        }
    }
    Ok(page)
}
