//! Transactions: changes that span several places, by two-phase commit (InfiniFS §4.2) with ordered
//! locks.
//!
//! One engine runs all of them. A `Plan` says which place to lock next, from what the
//! earlier steps have seen. In the end it says which changes each place makes. The coordinator is
//! the shard to which the client's request came. It may be a participant itself, by messages to
//! itself that never leave it.
//!
//! 1. **Voting.** The coordinator asks one step after the other, in lock order. A participant logs
//!    and *syncs* its prepared record before it votes. The coordinator logs nothing: a transaction
//!    that its coordinator does not know is undone. Two kinds of steps vote without a sync
//!    ([`redo`]): the id of a new directory, and a move's claim on the renaming graph. If power
//!    loss takes their prepared record, the decision can do without it.
//! 2. **Decision.** The coordinator logs the changes of all remote participants with its own
//!    changes and the request's outcome. It *syncs*, and only then tells the participants. The
//!    client hears at once. Until a participant hears, its changes are locked there, and other
//!    requests for them wait.
//! 3. **Finishing.** Each participant applies, unlocks, and remembers that it has. When that is
//!    durable it says so, and the coordinator forgets the step. What must come after all steps
//!    follows then, such as freeing a directory id.
//!
//! A step never takes a lock of lower rank than an earlier step (`LockKey`). So no cycle of waits
//! can form.

mod again;
pub mod apply;
mod coordinate;
mod deadline;
mod decide;
pub mod graph;
pub mod participant;
pub mod plan;
pub mod redo;
pub mod soundness;
mod tell;
mod votes;
