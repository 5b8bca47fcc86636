//! A transaction at its coordinator, and its steps.

mod finishing;
mod voting;

use alloc::sync::Arc;
use alloc::vec::Vec;
use pando_types::op::{Place, Request};
use pando_types::peer::{Behalf, Change, PeerMessage, Prepare, Seen};
use pando_types::{Errno, ShardIndex, TxnId};

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

/// A message to a shard about a step.
pub type Message = (ShardIndex, u16, PeerMessage);

/// A transaction that this shard coordinates.
#[derive(Default, Debug)]
pub struct Txn {
    kind: Option<TxnKind>,
    request: Option<Arc<Request>>,
    tag: Option<ClientTag>,
    /// What the transaction locks and changes. `None` once it is decided.
    plan: Option<Plan>,
    steps: Vec<Step>,
    /// The last message of the voting phase.
    sent: Option<Message>,
    sent_at: u64,
    /// Times of its begin, and of the first request for the awaited vote.
    begun_at: u64,
    asked_at: u64,
    /// How often that step has since been sent on to another shard.
    sent_on: u32,
    /// After the decision: steps to finish, and changes to make after them.
    finishing: Vec<(u16, ShardIndex, Vec<Change>)>,
    then: Vec<(ShardIndex, Change)>,
    /// The first unused step number.
    next_step: u16,
    /// The grant of the part that its holder has changed.
    under: Option<TxnId>,
}

impl Txn {
    /// A transaction that begins, for a client's request or for the shard itself.
    pub(crate) fn new(kind: TxnKind, from: Option<(ClientTag, &Request)>, plan: Plan) -> Self {
        Self {
            kind: Some(kind),
            request: from.map(|(_, request)| Arc::new(request.clone())),
            tag: from.map(|(tag, _)| tag),
            plan: Some(plan),
            ..Self::default()
        }
    }

    /// The transaction changes a lent part for its holder.
    pub(crate) fn passes(self, under: Option<TxnId>) -> Self {
        Self { under, ..self }
    }

    /// The grant of the part that its holder has changed.
    pub(crate) const fn under(&self) -> Option<TxnId> {
        self.under
    }

    /// The grant of the part that has the entry of the directory which changes. The entry's shard
    /// judges whether it is this session's.
    pub(crate) fn entry(&self) -> Option<TxnId> {
        self.request.as_ref()?.head.entry
    }

    /// A decided transaction, loaded after a restart.
    pub(crate) fn recovered(decided: Decided) -> Self {
        Self {
            finishing: decided.steps,
            then: decided.then,
            next_step: decided.next_step,
            ..Self::default()
        }
    }

    /// The plan, while nothing is decided.
    pub(crate) const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// What the plan needs to say what comes next; `None`: the transaction is decided.
    pub(crate) fn planning(&mut self) -> Option<(&mut Plan, &[Step], Option<&Request>)> {
        Some((self.plan.as_mut()?, &self.steps, self.request.as_deref()))
    }

    /// Steps of the voting phase.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The request. `None`: there is none, or it was forgotten in a restart.
    pub(crate) fn request(&self) -> Option<&Request> {
        self.request.as_deref()
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
            borrows: head.borrows,
            under: self.under,
        })
    }

    /// The request, to keep, and where its answer goes.
    pub(crate) fn client(&self) -> Option<(ClientTag, Arc<Request>)> {
        Some((self.tag?, self.request.clone()?))
    }

    /// Ends an undecided transaction: its plan, its request, and where the answer goes.
    pub(crate) fn into_parts(self) -> (Option<Plan>, Option<(ClientTag, Arc<Request>)>) {
        (self.plan, self.tag.zip(self.request))
    }

    /// The request, and where its answer goes.
    pub(crate) fn asker(&self) -> Option<(ClientTag, &Request)> {
        Some((self.tag?, self.request.as_deref()?))
    }

    /// Steps, with the shards that were asked for them, while nothing is decided.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (u16, ShardIndex)> + '_ {
        (0..).zip(self.steps.iter().map(|step| step.to))
    }

    /// Sends the answer to where the client asked again.
    pub(in crate::state::txn) fn answer_at(&mut self, tag: ClientTag) {
        self.tag = Some(tag);
    }
}
