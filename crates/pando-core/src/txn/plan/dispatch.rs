//! The engine's way to the plan of each kind.

use pando_types::op::Request;
use pando_types::peer::Prepare;
use pando_types::reply::Refusal;
use pando_types::{Credentials, Errno, TxnId};

use crate::counters::TxnKind;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::Stop;
use crate::state::txn::plan::Plan;
use crate::state::txn::transaction::Step;
use crate::txn::plan::view::{Next, View, Votes};

impl Plan {
    /// Kind of transaction, for the counters.
    pub fn kind(&self) -> TxnKind {
        match self {
            Self::Mkdir(_) => TxnKind::Mkdir,
            Self::Rmdir(_) => TxnKind::Rmdir,
            Self::Unlink(_) => TxnKind::Unlink,
            Self::Link(_) => TxnKind::Link,
            Self::Rename(rename) if rename.moves_dir() => TxnKind::RenameDir,
            Self::Rename(_) | Self::Exchange(_) => TxnKind::Rename,
            Self::DirSetAttr(_) => TxnKind::DirSetAttr,
            Self::Move(moving) => moving.kind(),
            Self::Handover(_) => TxnKind::Handover,
            Self::Join(_) => TxnKind::Join,
            Self::LockOf(_) => TxnKind::Lock,
        }
    }

    /// The next thing to do.
    pub fn next(
        &mut self,
        shard: &mut Shard,
        ctx: &mut Ctx<'_>,
        txn: TxnId,
        steps: &[Step],
        request: Option<&Request>,
    ) -> Result<Next, Stop> {
        let root = Credentials::ROOT;
        let credentials = request.map_or(&root, |r| &r.credentials);
        let mut view = View { shard, ctx, txn, votes: Votes(steps), credentials };
        match self {
            Self::Mkdir(plan) => plan.next(&mut view),
            Self::Rmdir(plan) => plan.next(&mut view),
            Self::Unlink(plan) => plan.next(&mut view),
            Self::Link(plan) => plan.next(&mut view),
            Self::Rename(plan) => plan.next(&mut view),
            Self::Exchange(plan) => plan.next(&mut view),
            Self::DirSetAttr(plan) => plan.next(&mut view),
            Self::Move(plan) => plan.next(&mut view),
            Self::Handover(plan) => plan.next(&mut view),
            Self::Join(plan) => Ok(plan.next(&mut view)),
            Self::LockOf(plan) => plan.next(&mut view),
        }
    }

    /// Whether the plan goes on in another way after a refused step.
    pub fn goes_on(&self, prepare: &Prepare, errno: Errno) -> bool {
        matches!((self, prepare), (Self::Mkdir(_), Prepare::NewHome(_))) && errno == Errno::EEXIST
    }

    /// Whether a refused step means that an assumption no longer holds, so that the transaction
    /// begins again.
    pub fn begins_again(&self, prepare: &Prepare, errno: Errno) -> bool {
        match (self, prepare) {
            (Self::DirSetAttr(_), Prepare::Name { .. }) => errno == Errno::ESTALE,
            // The walk was overtaken: the directory was above the new parent, and has been removed.
            (Self::Rename(rename), Prepare::Look(dir)) => {
                errno == Errno::ESTALE && !rename.goes_to(*dir)
            }
            (Self::Exchange(_), Prepare::Look(_)) => errno == Errno::ESTALE,
            (Self::Rename(_) | Self::Exchange(_), Prepare::Home(_) | Prepare::Partition { .. }) => {
                errno == Errno::ESTALE
            }
            (Self::Unlink(_) | Self::Rename(_) | Self::Exchange(_), Prepare::Link { .. }) => {
                errno == Errno::ESTALE
            }
            _ => false,
        }
    }

    /// What the client hears of a refused step. A request that makes a name asks for an absent one.
    /// The sticky bit protects only an existing name, so its error then means `EEXIST`.
    pub fn refusal(&self, prepare: &Prepare, errno: Errno) -> Refusal {
        match (self, prepare, errno) {
            (Self::Mkdir(_) | Self::Link(_), Prepare::Name { .. }, Errno::EPERM) => {
                Refusal::Errno(Errno::EEXIST)
            }
            (Self::Link(_), Prepare::Link { .. }, Errno::ESTALE)
            | (Self::LockOf(_), Prepare::LookFile { .. }, Errno::ESTALE) => Refusal::NotUnderName,
            // A program that moves a file copies it after `EXDEV`. One that removes a file cannot.
            (Self::Unlink(_), Prepare::Name { .. }, Errno::EXDEV) => Refusal::Errno(Errno::EFBIG),
            _ => Refusal::Errno(errno),
        }
    }

    /// Undoes what the plan holds outside its steps.
    pub fn abandon(self, shard: &mut Shard, ctx: &mut Ctx<'_>, txn: TxnId) {
        match self {
            Self::Move(moving) => moving.abandon(shard, ctx, txn),
            Self::Handover(handover) => handover.abandon(shard, ctx, txn),
            _ => {}
        }
    }
}
