//! A request at a shard of which parts are held: what becomes of it.

use pando_core::Said;
use pando_types::lend::UnderLoan;
use pando_types::op::{FileRef, Op, Request};
use pando_types::reply::{Body, Reply};
use pando_types::requests::asked::is_change;
use pando_types::{DirId, Order, ShardIndex, TxnId};

use crate::known::reach::{Reach, dirs_of};
use crate::settings::{OLDEST, UNSENT_MAX};
use crate::side::State;

/// What becomes of a request now.
pub(crate) enum Step {
    /// It is answered here.
    Answered(Box<Reply>),
    /// It is answered here once the shard has what it changed: that could not be noted.
    Unnoted(Box<Reply>),
    /// It travels.
    Travels,
    /// It waits until something changes.
    Waits,
    /// It needs the rows of a file.
    Fetches(TxnId, Order),
    /// It travels, and its part stays: the shard changes something there for this holder.
    Under(DirId, UnderLoan),
    /// It asks that what was changed under these grants, or any, be durable.
    Syncs(Option<Vec<TxnId>>),
}

impl State {
    /// Looks at a request, and answers it if all that it needs is here. `now`: by the clock that
    /// goes on while the machine sleeps.
    pub(crate) fn step(&mut self, shard: ShardIndex, request: &Request, now: u64) -> Step {
        if self.requests.was_sent(request.head.id) || request.trail.is_some() {
            return self.travels(request, now);
        }
        if self.holds_up(&request.op) {
            return Step::Waits;
        }
        // Also of parts that are given back by now.
        if matches!(request.op, Op::Sync(_)) && self.queue.unsent() > 0 {
            return Step::Syncs(None);
        }
        let id = request.head.id;
        let Some(lent) = &self.lent else { return Step::Travels };
        if id.sequence > 0 && id.session != self.session {
            return self.travels(request, now);
        }
        match &request.op {
            Op::ReleaseAll(_, files) => return self.release_all(shard, request, files, now),
            Op::SyncFile(file) => {
                let grants = self.grants_of(file);
                if !grants.is_empty() {
                    return Step::Syncs(Some(grants));
                }
            }
            _ => {}
        }
        let is_held = match self.births.is_empty() && now < lent.until {
            true => true,
            false => lent.is_held(&request.op, now, |grant| self.is_doubtful(grant)),
        };
        let changes = is_change(&request.op);
        if changes && self.queue.is_broken() {
            return self.travels(request, now);
        }
        if changes && self.is_late(now, &request.op) {
            return Step::Waits;
        }
        let moment = self.moment(now);
        let Some(lent) = &mut self.lent else { return Step::Travels };
        if !is_held {
            // Whether it concerns a part at all is not known before it has run.
            let is_about = |dir: DirId| !lent.core.about(&request.op, dir).is_empty();
            return match dirs_of(&request.op).into_iter().any(is_about) {
                true => Step::Waits,
                false => Step::Travels,
            };
        }
        match lent.core.answer(moment, request) {
            Ok(Said::Answer(result, element)) => {
                self.note_used(&request.op, now);
                let is_change = element.is_some();
                if let Some(element) = element {
                    let is_unsynced = request.op.objects().next().is_some();
                    self.queue.push_with(element, now, is_unsynced);
                }
                let reply = self.reply_of(request, shard, now, result);
                match is_change && self.queue.is_broken() {
                    true => Step::Unnoted(reply),
                    false => Step::Answered(reply),
                }
            }
            Ok(Said::Fetch(grant, order)) => Step::Fetches(grant, order),
            Ok(Said::Travel(grants)) => match self.goes_under(request) {
                Some((dir, under)) => {
                    self.note_used(&request.op, now);
                    Step::Under(dir, under)
                }
                None => {
                    self.give_up(&grants, now);
                    Step::Travels
                }
            },
            // The rows cannot be decoded. The shard judges its own.
            Err(_) => self.travels(request, now),
        }
    }

    /// Holds up a directory that the shard is to change for this holder, if it may do so while the
    /// part stays here.
    fn goes_under(&mut self, request: &Request) -> Option<(DirId, UnderLoan)> {
        let (Op::Mkdir(dir, ..) | Op::Rmdir(dir, _) | Op::DirSetAttr(dir, _)) = &request.op else {
            return None;
        };
        let is_first = request.head.id.sequence > 0 && !self.queue.is_broken() && !self.is_closed;
        let core = &self.lent.as_ref().filter(|_| is_first)?.core;
        let under = core.under(&request.op)?;
        let reach = Reach::of(&request.op, |name| core.order(name));
        self.under.insert((dir.id, under.grant));
        self.requests.sent(request.head.id, reach);
        Some((dir.id, under))
    }

    /// Lets a request travel, and gives back what it is about.
    fn travels(&mut self, request: &Request, now: u64) -> Step {
        if let Some(lent) = &self.lent {
            let dirs = dirs_of(&request.op).into_iter();
            let about = dirs.flat_map(|dir| lent.core.about(&request.op, dir));
            let grants: Vec<_> = about.collect();
            self.give_back(&grants, now);
        }
        Step::Travels
    }

    /// Gives back parts of which this session itself needs more than a part. It borrows those later
    /// that were not worth it.
    fn give_up(&mut self, grants: &[TxnId], now: u64) {
        for grant in grants {
            let Some(lent) = &self.lent else { break };
            if let Some((part, its)) = lent.core.counted(*grant).zip(lent.uses.get(grant)) {
                self.eager.given_up(part, its.answered, now);
            }
        }
        self.give_back(grants, now);
    }

    /// Whether too much is on its way to the shard before this change, or has been for too long.
    fn is_late(&self, now: u64, op: &Op) -> bool {
        let its = || self.lent.as_ref().map_or_else(Vec::new, |lent| lent.core.grants_of(op));
        let before = now.saturating_sub(OLDEST);
        !self.queue.has_room() || self.queue.is_late((UNSENT_MAX, before), its)
    }

    /// The grant of the part that has a file. A shard is asked itself about a file of another part
    /// of the directory: what it may have to wait for is not known here.
    fn grants_of(&self, file: &FileRef) -> Vec<TxnId> {
        let Some(lent) = &self.lent else { return Vec::new() };
        let op = Op::GetAttr(file.clone());
        dirs_of(&op).into_iter().flat_map(|dir| lent.core.about(&op, dir)).collect()
    }

    fn note_used(&mut self, op: &Op, now: u64) {
        if let Some(lent) = &mut self.lent {
            for grant in lent.core.grants_of(op) {
                if let Some(its) = lent.uses.get_mut(&grant) {
                    its.last = now;
                    its.answered = its.answered.saturating_add(1);
                }
            }
        }
    }

    /// Closes the files that are here. The client closes the others one by one.
    fn release_all(
        &mut self,
        shard: ShardIndex,
        request: &Request,
        files: &[FileRef],
        now: u64,
    ) -> Step {
        if files.iter().all(|file| self.grants_of(file).is_empty()) {
            return Step::Travels;
        }
        let moment = self.moment(now);
        let Some(lent) = &mut self.lent else { return Step::Travels };
        let mut left = Vec::new();
        for (nth, file) in files.iter().enumerate() {
            let one = Request { op: Op::Release(file.clone()), ..request.clone() };
            match lent.core.answer(moment, &one) {
                Ok(Said::Answer(Ok(_), _)) => {}
                _ => left.push(nth as u32),
            }
        }
        Step::Answered(self.reply_of(request, shard, now, Ok(Body::Left(left))))
    }
}
