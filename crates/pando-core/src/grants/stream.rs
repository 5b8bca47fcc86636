//! Elements: what holders have changed, in batches. Each element is an input of its own.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pando_types::lend::{Act, Change, Element, GrantState, Inos, PartOpen, Standing};
use pando_types::op::{CHANGE_MAX, Head, Op, Request, RequestId};
use pando_types::reply::Body;
use pando_types::requests::asked::{Asked, changes_at, changes_dir, is_change};
use pando_types::{CLOCK_SLACK_NANOS, DirRef, Errno, Ino, KeyId, Name, Timestamp, TxnId};

use crate::contract::{ClientTag, Halt, Need};
use crate::grants::attend::state;
use crate::grants::lend::inos_after;
use crate::records::keys;
use crate::records::record::{Entry, Grant, Header, Record};
use crate::requests::admission::asks_too_much;
use crate::state::ctx::{Ctx, Lent};
use crate::state::grants::batch::Batch;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop};

/// Most opens of one file that a holder may tell.
pub const OPENS_MAX: u32 = 1 << 20;

/// What becomes of an element.
enum Fate {
    /// It is applied now.
    Applied,
    /// It was applied before, or others come before it, or its grant takes no more.
    Passed,
    /// It differs from what the holder answered, or must not be.
    Refused,
}

impl Shard {
    /// Runs [`pando_types::op::Op::Stream`]: takes the elements in. The last one answers.
    pub(crate) fn stream(
        &mut self,
        ctx: &Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        let Op::Stream { elements, synced, .. } = &request.op else {
            return Err(Errno::EINVAL.into());
        };
        if ctx.now.is_spent {
            return Err(Errno::ENOSPC.into());
        }
        if elements.is_empty() {
            let need = if *synced { Need::Synced } else { Need::Committed };
            return Ok(Ran::Answer(Body::Streamed(Vec::new()), need));
        }
        self.grants.push(Batch { tag, request: Box::new(request.clone()), next: 0 });
        Ok(Ran::Later)
    }

    /// Runs the next element of a batch, and answers after the last one.
    pub(crate) fn run_next_element(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut batch: Batch,
    ) -> Result<(), Halt> {
        let Op::Stream { elements, synced, .. } = &batch.request.op else { return Ok(()) };
        let Some(element) = elements.get(batch.next) else { return Ok(()) };
        // A full disk: what is left is sent again.
        let is_last = batch.next + 1 >= elements.len() || ctx.now.is_spent;
        if !ctx.now.is_spent {
            match self.run_element(ctx, batch.tag.1, element) {
                Err(Halt::Unreadable(_)) if !self.concerned.is_torn() => {
                    ctx.discard();
                    self.refuse(ctx, element.grant);
                }
                ran => ran?,
            }
        }
        if !is_last {
            batch.next += 1;
            self.grants.put_back(batch);
            return Ok(());
        }
        let mut states = BTreeMap::new();
        for element in elements {
            states
                .entry(element.grant)
                .or_insert_with(|| self.state_of(batch.tag.1, element.grant));
        }
        // What the holder sets aside must not stand again after a loss of power. Nor may it forget
        // what it has told with a return beyond what was applied.
        let is_told = |grant: &TxnId, state: &GrantState| {
            elements.iter().any(|it| {
                it.grant == *grant && matches!(it.act, Act::Return(_)) && it.number > state.applied
            })
        };
        let is_lost = |(grant, state): (&TxnId, &GrantState)| match state.standing {
            Standing::Stands | Standing::Awaited => false,
            Standing::Returned => is_told(grant, state),
            _ => true,
        };
        let need = match (*synced, states.iter().any(is_lost)) {
            (true, _) => Need::Synced,
            (false, true) => Need::Durable,
            (false, false) => Need::Committed,
        };
        let body = Body::Streamed(states.into_iter().collect());
        self.reply(ctx, batch.tag, &batch.request, Ok(body), need);
        self.concerned.note_asked(batch.tag, batch.request);
        Ok(())
    }

    fn state_of(&self, key: KeyId, grant: TxnId) -> GrantState {
        match self.grants.get(grant).filter(|held| held.grant.key == key) {
            Some(held) => state(held),
            None => {
                let is_awaited = self.awaits_birth(grant);
                let standing = if is_awaited { Standing::Awaited } else { Standing::Unknown };
                GrantState { applied: 0, standing, inos: Vec::new() }
            }
        }
    }

    /// Runs an element, if it is the next one of its grant.
    fn run_element(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: KeyId,
        element: &Element,
    ) -> Result<(), Halt> {
        let held = self.grants.get(element.grant).filter(|held| held.grant.key == key);
        let Some(grant) = held.map(|held| held.grant.clone()) else { return Ok(()) };
        let is_next = element.number == grant.applied.wrapping_add(1);
        #[cfg(feature = "planted")]
        let is_next = is_next
            || element.number > grant.applied
                && self.is_planted(crate::Planted::ElementsOutOfOrder)
            || self.is_planted(crate::Planted::ElementsTwice);
        let takes_changes = grant.standing == Standing::Stands;
        #[cfg(feature = "planted")]
        let (is_next, takes_changes) = match grant.standing {
            Standing::Fenced => (is_next, self.is_planted(crate::Planted::FencedApplied)),
            Standing::Refused => {
                let is_passed_over = self.is_planted(crate::Planted::RefusedPassedOver);
                (is_next || is_passed_over && element.number > grant.applied, is_passed_over)
            }
            _ => (is_next, takes_changes),
        };
        let fate = match (&element.act, grant.standing) {
            (Act::Change(change), _) if is_next && takes_changes => {
                self.run_change(ctx, element.grant, &grant, change)?
            }
            // After a refusal the holder returns what it has, with elements left out. It numbers
            // the return anew: one that was sent before says nothing.
            (Act::Return(opens), Standing::Stands | Standing::Refused) if is_next => {
                return self.take_return(ctx, element, grant, opens.as_deref());
            }
            // What is open in a part that was fenced. Its holder lets nothing travel that opens or
            // closes a file of it, until it has heard that this was taken in.
            (Act::Return(Some(opens)), Standing::Fenced) if is_next => {
                return self.take_late_return(ctx, element.grant, grant, opens);
            }
            _ => Fate::Passed,
        };
        match fate {
            Fate::Applied => self.note_applied(ctx, element, grant),
            Fate::Passed => {}
            Fate::Refused => self.refuse(ctx, element.grant),
        }
        Ok(())
    }

    /// Takes no further element of a grant. Its holder is to give the part back.
    fn refuse(&mut self, ctx: &mut Ctx<'_>, generation: TxnId) {
        let Some(held) = self.grants.get(generation).filter(|held| held.grant.is_lent()) else {
            return;
        };
        self.counters.elements_refused += 1;
        let refused = Grant { standing: Standing::Refused, ..held.grant.clone() };
        ctx.put(keys::grant(generation), refused.encode());
        self.grants.update(generation, refused);
        self.recall_grant(ctx.now, generation);
    }

    fn note_applied(&mut self, ctx: &mut Ctx<'_>, element: &Element, mut grant: Grant) {
        self.counters.elements += 1;
        grant.applied = element.number;
        if let Act::Change(Change { ino, .. }) = &element.act
            && ino.0 > 0
        {
            let is_used = |range: &Inos| range.end.0 <= ino.0 + 1;
            grant.inos.retain(|range| !is_used(range));
            if let Some(first) = grant.inos.first_mut() {
                first.first = Ino(first.first.0.max(ino.0 + 1));
            }
            let left: u64 = grant.inos.iter().map(|range| range.end.0 - range.first.0).sum();
            let more = inos_after(grant.applied);
            if left < more / 2 {
                grant.inos.push(self.numbers.inos(ctx, more));
            }
        }
        ctx.put(keys::grant(element.grant), grant.encode());
        self.grants.update(element.grant, grant);
    }

    /// Runs a change as its holder has run it, and compares.
    fn run_change(
        &mut self,
        ctx: &mut Ctx<'_>,
        generation: TxnId,
        grant: &Grant,
        change: &Change,
    ) -> Result<Fate, Halt> {
        let asked = (change.asked.len() <= CHANGE_MAX).then(|| Asked::decode(&change.asked));
        let Some(Ok(Asked { credentials, op })) = asked else { return Ok(Fate::Refused) };
        // It rests on a change that was lost with this shard's power, or its holder is at fault.
        if change.after != grant.amended {
            return Ok(Fate::Refused);
        }
        let gives = |range: &Inos| (range.first..range.end).contains(&change.ino);
        if !self.lies_in(ctx, grant, &op)? || change.ino.0 > 0 && !grant.inos.iter().any(gives) {
            return Ok(Fate::Refused);
        }
        // Objects of a session that is over may have been collected.
        if matches!(op, Op::WriteData { .. }) && !self.sessions.is_alive(grant.session) {
            return Ok(Fate::Refused);
        }
        let stamp = change.stamp <= ctx.now.wall.saturating_add(CLOCK_SLACK_NANOS);
        if stamp {
            ctx.time = Timestamp::from_nanos(change.stamp);
        }
        let ino = (change.ino.0 > 0).then_some(change.ino);
        ctx.lent = Some(Lent { grant: generation, ino, counts_opens: false });
        let id = RequestId { session: grant.session, ..RequestId::default() };
        let head = Head { id, ..Head::default() };
        let request = Request { head, credentials, op, trail: None };
        if asks_too_much(&request) {
            ctx.lent = None;
            return Ok(Fate::Refused);
        }
        let ran = self.run_lent(ctx, grant.session, &request);
        ctx.lent = None;
        match ran {
            Ok(ran) if ran.made == change.ino && ran.digest == change.digest => Ok(Fate::Applied),
            // A transaction of the holder that was undone unlocks these later.
            Err(Stop::Wait(LockKey::Name(..) | LockKey::Home(_) | LockKey::Partition(..))) => {
                ctx.discard();
                Ok(Fate::Passed)
            }
            Err(Stop::Halt(halt @ Halt::Broken(_))) => Err(halt),
            Err(Stop::Halt(halt)) if self.concerned.is_torn() => Err(halt),
            _ => {
                ctx.discard();
                Ok(Fate::Refused)
            }
        }
    }

    /// Whether an element of a grant may have this operation: all that it changes is in the part.
    fn lies_in(&mut self, ctx: &Ctx<'_>, grant: &Grant, op: &Op) -> Result<bool, Halt> {
        if !is_change(op) {
            return Ok(false);
        }
        let (part, names) = (grant.part, changes_at(op).unwrap_or_default());
        let header = self.header_of(ctx, part.dir.id, part.partition)?;
        let Some(header) = header.filter(|header| header.ino == part.dir.ino) else {
            return Ok(false);
        };
        let is_in = |(dir, name): (DirRef, &Name)| {
            dir == part.dir && header.range().contains(&self.order(name).0)
        };
        let is_its = changes_dir(op).is_none_or(|dir| dir == part.dir && part.partition.0 == 0);
        Ok(is_its && names.into_iter().flatten().all(is_in))
    }

    /// Takes a part back from its holder.
    fn take_return(
        &mut self,
        ctx: &mut Ctx<'_>,
        element: &Element,
        grant: Grant,
        opens: Option<&[PartOpen]>,
    ) -> Result<(), Halt> {
        let part = grant.part;
        if let (Some(opens), Some(header)) =
            (opens, self.header_of(ctx, part.dir.id, part.partition)?)
        {
            self.put_opens(ctx, &grant, &header, opens)?;
        }
        self.counters.parts_returned += 1;
        let applied = match grant.standing {
            Standing::Refused => grant.applied,
            _ => element.number,
        };
        let grant = Grant { applied, ..grant };
        self.end_grant(ctx, element.grant, grant, Standing::Returned);
        Ok(())
    }

    /// Takes in what the holder of a fenced part has open in it. Others may use the part since.
    /// What they removed is gone.
    fn take_late_return(
        &mut self,
        ctx: &mut Ctx<'_>,
        generation: TxnId,
        grant: Grant,
        opens: &[PartOpen],
    ) -> Result<(), Halt> {
        let part = grant.part;
        // Another holder knows what is open there. The return comes again.
        let lock = LockKey::Partition(part.dir.id, part.partition);
        if self.recall_lock(ctx.now, lock) {
            return Ok(());
        }
        if let Some(header) = self.header_of(ctx, part.dir.id, part.partition)? {
            self.put_opens(ctx, &grant, &header, opens)?;
        }
        let grant = Grant { standing: Standing::Returned, ..grant };
        ctx.put(keys::grant(generation), grant.encode());
        self.grants.update(generation, grant);
        Ok(())
    }

    /// Records what the holder has open in its part, instead of what was recorded.
    fn put_opens(
        &self,
        ctx: &mut Ctx<'_>,
        grant: &Grant,
        header: &Header,
        opens: &[PartOpen],
    ) -> Result<(), Halt> {
        let (dir, session, orders) = (grant.part.dir.id, grant.session, header.range());
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::OpensNotReturned) {
            return Ok(());
        }
        let told: BTreeMap<Ino, PartOpen> = opens
            .iter()
            .filter(|it| it.count > 0 && orders.contains(&it.order.0))
            .take(usize::try_from(header.entries).unwrap_or(usize::MAX))
            .map(|it| (it.ino, PartOpen { count: it.count.min(OPENS_MAX), ..*it }))
            .collect();
        for open in self.namespace.opens.in_range(dir, &orders) {
            if open.session == session && !told.contains_key(&open.ino) {
                self.clear_open(ctx, session, open.ino);
            }
        }
        if !self.sessions.is_alive(session) {
            return Ok(());
        }
        for open in told.into_values() {
            let found = ctx.stored(&keys::entry(dir, open.order))?;
            let entry = found.map(|bytes| Entry::decode(&bytes)).transpose()?;
            let ino = entry.and_then(|entry| entry.file().map(|inode| inode.attr.ino));
            if ino == Some(open.ino) {
                self.put_open(ctx, session, open, dir);
            }
        }
        Ok(())
    }
}
