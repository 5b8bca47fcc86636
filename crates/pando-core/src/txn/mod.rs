//! Transactions: what spans several places, by two-phase commit (InfiniFS §4.2) with ordered locks.
//!
//! One engine for all of them. A [`plan::Plan`] says which place to lock next, given what the steps
//! before have seen, and in the end which changes each place makes. The coordinator is the shard
//! that the client's request came to; it may be a participant itself, through messages to itself
//! that never leave it.
//!
//! 1. Voting: one step after the other, in lock order. A participant logs and *syncs* its prepared
//!    record before it votes. Nothing is logged at the coordinator: a transaction that its
//!    coordinator does not know is undone. A participant whose change can be made from the decision
//!    alone (a new directory's content, a move's claim on the renaming graph) votes without syncing
//!    ([`redo`]): if power loss takes its prepared record, the decision does not need it.
//! 2. Decision: the coordinator logs the changes of all remote participants together with its own
//!    changes and the request's outcome, *syncs*, and only then tells the participants. The client
//!    hears at once: until the participants hear, too, whatever changes there is locked, and who
//!    asks waits.
//! 3. Finishing: each participant applies, unlocks, and remembers that it has; when that is durable
//!    it says so, and is forgotten. What must come after all of them (freeing a directory id)
//!    follows then.
//!
//! Steps that touch locks of lower rank never come later, so waiting cannot form a circle
//! (`LockKey`).

mod again;
pub mod agenda;
pub mod apply;
mod coordinate;
mod deadline;
pub mod floor;
pub mod graph;
pub mod participant;
pub mod plan;
pub mod redo;
mod tell;

use alloc::sync::Arc;
use alloc::vec::Vec;
use pando_types::op::{Place, Request};
use pando_types::peer::{Behalf, Change, Prepare, Say, Seen};
use pando_types::{Errno, ShardIndex};

use crate::contract::ClientTag;
use crate::counters::TxnKind;
use crate::record::Decided;
use plan::Plan;

/// How far a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    /// Its vote is awaited.
    Asked,
    /// It voted yes.
    Yes,
    /// It voted no, and the plan goes on without it.
    Refused(Errno),
}

/// One place that takes part.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where.
    pub place: Place,
    /// What is asked.
    pub prepare: Prepare,
    /// Whom.
    pub to: ShardIndex,
    /// How far it is.
    pub state: StepState,
    /// What it saw.
    pub seen: Option<Seen>,
    /// What it shall do.
    pub changes: Vec<Change>,
}

/// A transaction that this shard coordinates.
#[derive(Debug)]
pub struct Txn {
    kind: Option<TxnKind>,
    request: Option<Arc<Request>>,
    tag: Option<ClientTag>,
    /// `None` once it is decided.
    plan: Option<Plan>,
    steps: Vec<Step>,
    /// What was sent last while voting: to whom, which step, what.
    sent: Option<(ShardIndex, u16, Say)>,
    sent_at: u64,
    /// When it began, and when it first asked for the vote that it waits for.
    begun_at: u64,
    asked_at: u64,
    /// How often that step has been sent on since.
    sent_on: u32,
    /// After the decision: steps to finish, and what follows.
    finishing: Vec<(u16, ShardIndex, Vec<Change>)>,
    then: Vec<(ShardIndex, Change)>,
    /// The first step number not used yet.
    next_step: u16,
}

impl Txn {
    /// A decided one, after a restart.
    pub(crate) fn recovered(decided: Decided) -> Self {
        Self {
            kind: None,
            request: None,
            tag: None,
            plan: None,
            steps: Vec::new(),
            sent: None,
            sent_at: 0,
            begun_at: 0,
            asked_at: 0,
            sent_on: 0,
            finishing: decided.steps,
            then: decided.then,
            next_step: decided.next_step,
        }
    }

    /// What it is about to do, while nothing is decided.
    pub(crate) const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The request, while nothing is decided.
    pub(crate) fn undecided(&self) -> Option<&Request> {
        self.plan.as_ref().and(self.request.as_deref())
    }

    /// The trace of the request; `None`: there is none, or it is not known after a restart.
    pub(crate) fn trace(&self) -> Option<u64> {
        Some(self.request.as_ref()?.head.trace)
    }

    /// What it does; `None` if it was recovered.
    pub(crate) const fn kind(&self) -> Option<TxnKind> {
        self.kind
    }

    /// On whose behalf it is.
    pub(crate) fn behalf(&self) -> Behalf {
        let head = self.request.as_ref().map(|request| request.head).filter(|h| h.id.sequence > 0);
        head.map_or_else(Behalf::default, |head| Behalf {
            session: head.id.session,
            heard: head.heard,
        })
    }

    /// The request, and where its answer goes.
    pub(crate) fn client(&self) -> Option<(ClientTag, Arc<Request>)> {
        Some((self.tag?, self.request.clone()?))
    }

    /// Whom it has asked for what step, while nothing is decided.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (u16, ShardIndex)> + '_ {
        (0..).zip(self.steps.iter().map(|step| step.to))
    }

    /// The client asked again: the answer goes there.
    pub(crate) fn repeat(&mut self, tag: ClientTag) {
        self.tag = Some(tag);
    }
}
