//! Records when shards apply the changes of requests, and which inodes those make. They are hints
//! for the search of an order ([`crate::check`]).

use std::sync::{Arc, Mutex};

use pando_core::keys::Table;
use pando_core::record::{Grant, Outcome, Record};
use pando_core::{Effects, Out, Write, keys};
use pando_types::lend::Standing;
use pando_types::op::RequestId;
use pando_types::reply::{Body, Refusal};
use pando_types::{Ino, Lsn, ShardIndex, TxnId};

use crate::base::lock::lock;
use crate::check::{Ended, History};

/// Requests that changed something which the shard has applied in this life, each with its insert
/// group.
pub struct Applied {
    history: Arc<Mutex<History>>,
    groups: Vec<(Lsn, RequestId)>,
    /// Grants that are over, each with what was known of its end before.
    over: Vec<(Lsn, TxnId, Option<Ended>)>,
}

impl Applied {
    /// Blocks of this shard cannot be read for a while.
    pub fn cannot_read(&self, shard: ShardIndex) {
        lock(&self.history).loans.unreadable.insert(shard);
    }

    /// The record of a shard that has applied nothing.
    pub fn new(history: Arc<Mutex<History>>) -> Self {
        Self { history, groups: Vec::new(), over: Vec::new() }
    }

    /// Notes the requests that these effects record or answer. The effects follow the insert group
    /// `last`.
    pub fn hear(&mut self, last: Lsn, effects: &Effects) {
        self.begin_again(last);
        // A local session's outcomes are not recorded. A repetition would be answered once more.
        let is_new = |id: RequestId| !lock(&self.history).was_applied(id);
        let answered = effects.out.iter().filter_map(|(_, out)| match out {
            Out::Reply(_, reply) if reply.id.session.is_local() && is_new(reply.id) => {
                Some((reply.id, made(&reply.result)))
            }
            _ => None,
        });
        let answered: Vec<_> = applied(&effects.writes).into_iter().chain(answered).collect();
        for (id, made) in answered {
            self.groups.push((Lsn(last.0 + 1), id));
            lock(&self.history).applied(id, made);
        }
        for (generation, grant) in grants(&effects.writes) {
            lock(&self.history).loans.sees(generation, &grant);
            if grant.is_lent() {
                continue;
            }
            let ended = (grant.applied, grant.standing == Standing::Fenced);
            let before = lock(&self.history).grant_ends(generation, Some(ended));
            self.over.push((Lsn(last.0 + 1), generation, before));
        }
    }

    /// The shard goes on after the insert group `last`. Later groups were dropped, or lost with
    /// their process.
    pub fn begin_again(&mut self, last: Lsn) {
        while let Some((_, id)) = self.groups.pop_if(|(group, _)| *group > last) {
            lock(&self.history).lost_again(id);
        }
        while let Some((_, grant, before)) = self.over.pop_if(|(group, ..)| *group > last) {
            lock(&self.history).loans.ends(grant, before);
        }
    }
}

/// Grants that these writes give or change.
fn grants(writes: &[Write]) -> Vec<(TxnId, Grant)> {
    let table = keys::table(Table::Grant);
    let grants = writes.iter().filter_map(|write| match write {
        Write::Put(key, value) if key.starts_with(&table) => {
            Some((keys::grant_of(key)?, Grant::decode(value).ok()?))
        }
        _ => None,
    });
    grants.collect()
}

/// The request that has its outcome in these writes, and the inode that it made. `None`: there is
/// no outcome, or there are several, which arrive with a hash slot.
fn applied(writes: &[Write]) -> Option<(RequestId, Option<Ino>)> {
    let table = keys::table(Table::Outcome);
    let mut outcomes = writes.iter().filter_map(|write| match write {
        Write::Put(key, value) if key.starts_with(&table) => {
            let (session, slot) = keys::outcome_of(key)?;
            let Outcome { sequence, result, .. } = Outcome::decode(value).ok()?;
            Some((RequestId { session, slot, sequence }, result.and_then(|result| made(&result))))
        }
        _ => None,
    });
    outcomes.next().filter(|_| outcomes.next().is_none())
}

fn made(result: &Result<Body, Refusal>) -> Option<Ino> {
    match result {
        Ok(Body::Created(attr, true, _)) => Some(attr.ino),
        Ok(Body::Made(dir, _) | Body::Born(dir, ..)) => Some(dir.ino),
        _ => None,
    }
}
