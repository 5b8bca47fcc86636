//! When shards apply what requests change, and what that makes: hints for the search of an order
//! ([`crate::check`]).

use std::sync::{Arc, Mutex};

use pando_core::keys::{self, Table};
use pando_core::record::{Outcome, Record};
use pando_core::{Effects, Out, Write};
use pando_types::op::RequestId;
use pando_types::reply::{Body, Refusal};
use pando_types::{Ino, Lsn};

use crate::check::History;
use crate::client_run::lock;

/// Requests whose changes the shard has applied in this life, each with its insert group.
pub struct Applied {
    history: Arc<Mutex<History>>,
    groups: Vec<(Lsn, RequestId)>,
}

impl Applied {
    /// Of a shard that has applied nothing.
    pub fn new(history: Arc<Mutex<History>>) -> Self {
        Self { history, groups: Vec::new() }
    }

    /// Tells of what these effects, which follow the group `last`, record or answer.
    pub fn hear(&mut self, last: Lsn, effects: &Effects) {
        self.begin_again(last);
        // Of a session of the process nothing is recorded; a copy is answered once more.
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
    }

    /// The shard goes on from this group: what came after it was dropped, or went with its process.
    pub fn begin_again(&mut self, last: Lsn) {
        while let Some((_, id)) = self.groups.pop_if(|(group, _)| *group > last) {
            lock(&self.history).lost_again(id);
        }
    }
}

/// The request whose outcome these writes record, and what it made. `None`: there is none, or there
/// are several, which come along with a slot.
fn applied(writes: &[Write]) -> Option<(RequestId, Option<Ino>)> {
    let table = keys::table(Table::Slot);
    let mut outcomes = writes.iter().filter_map(|write| match write {
        Write::Put(key, value) if key.starts_with(&table) => {
            let (session, slot) = keys::slot_of(key)?;
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
        Ok(Body::Made(dir, _)) => Some(dir.ino),
        _ => None,
    }
}
