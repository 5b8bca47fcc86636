//! A transaction at its coordinator, and its steps.

use alloc::sync::Arc;
use alloc::vec::Vec;
use pando_types::op::{Place, Request};
use pando_types::peer::{Behalf, Change, PeerMessage, Prepare, Seen};
use pando_types::{Errno, ShardIndex};

use crate::contract::ClientTag;
use crate::counters::TxnKind;
use crate::records::record::Decided;
use crate::state::txn::plan::Plan;

/// Progress of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    /// The coordinator waits for its vote.
    Asked,
    /// Its participant voted yes.
    Yes,
    /// Its participant voted no, and the plan goes on without it.
    Refused(Errno),
}

/// One place that takes part in a transaction.
#[derive(Clone, Debug)]
pub struct Step {
    /// The place.
    pub place: Place,
    /// What the participant is asked.
    pub prepare: Prepare,
    /// The participant.
    pub to: ShardIndex,
    /// Progress of the step.
    pub state: StepState,
    /// What the participant saw.
    pub seen: Option<Seen>,
    /// Changes that the participant makes by the decision.
    pub changes: Vec<Change>,
}

/// A transaction that this shard coordinates.
#[derive(Debug)]
pub struct Txn {
    pub(crate) kind: Option<TxnKind>,
    pub(crate) request: Option<Arc<Request>>,
    pub(crate) tag: Option<ClientTag>,
    /// What the transaction locks and changes. `None` once it is decided.
    pub(crate) plan: Option<Plan>,
    pub(crate) steps: Vec<Step>,
    /// The last message of the voting phase: recipient, step, content.
    pub(crate) sent: Option<(ShardIndex, u16, PeerMessage)>,
    pub(crate) sent_at: u64,
    /// Times of its begin, and of the first request for the awaited vote.
    pub(crate) begun_at: u64,
    pub(crate) asked_at: u64,
    /// How often that step has since been sent on to another shard.
    pub(crate) sent_on: u32,
    /// After the decision: steps to finish, and changes to make after them.
    pub(crate) finishing: Vec<(u16, ShardIndex, Vec<Change>)>,
    pub(crate) then: Vec<(ShardIndex, Change)>,
    /// The first unused step number.
    pub(crate) next_step: u16,
}

impl Txn {
    /// A decided transaction, loaded after a restart.
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

    /// The plan, while nothing is decided.
    pub(crate) const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The request, while nothing is decided.
    pub(crate) fn undecided(&self) -> Option<&Request> {
        self.plan.as_ref().and(self.request.as_deref())
    }

    /// The trace of the request. `None`: there is no request, or it was forgotten in a restart.
    pub(crate) fn trace(&self) -> Option<u64> {
        Some(self.request.as_ref()?.head.trace)
    }

    /// Kind of transaction. `None` after a restart.
    pub(crate) const fn kind(&self) -> Option<TxnKind> {
        self.kind
    }

    /// Session for which the transaction runs.
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

    /// Steps, with the shards that were asked for them, while nothing is decided.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (u16, ShardIndex)> + '_ {
        (0..).zip(self.steps.iter().map(|step| step.to))
    }

    /// Sends the answer to where the client asked again.
    pub(crate) fn repeat(&mut self, tag: ClientTag) {
        self.tag = Some(tag);
    }
}
