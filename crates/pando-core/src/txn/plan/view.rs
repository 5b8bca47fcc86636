//! What a plan works with, and what it answers to the engine.

use alloc::vec::Vec;
use pando_placement::range;
use pando_types::op::Place;
use pando_types::peer::{Change, Claim, EntryRows, Inherit, PeerMessage, Prepare, Seen};
use pando_types::reply::Body;
use pando_types::{
    Attr, Credentials, DirId, DirRef, Ino, Name, Order, PartitionIndex, Radix, ShardIndex, TxnId,
};

use crate::contract::SHARD_0;
use crate::state::ctx::Ctx;
use crate::state::namespace::headers::Leaves;
use crate::state::shard::Shard;
use crate::state::txn::transaction::{Step, StepState};

/// What a plan wants next.
pub enum Next {
    /// Ask a participant for one more step.
    Ask(Place, Prepare),
    /// Send a message before the first step.
    Send(ShardIndex, PeerMessage),
    /// Wait. Another transaction is in the way, and its end makes this one go on.
    Pause,
    /// Decide: all is locked and checked.
    Decide(Decision),
    /// Undo and begin again, since an assumption no longer holds.
    Restart,
}

/// Changes, each with the index of its step.
pub type Changes = Vec<(usize, Change)>;

/// Changes after all steps have finished, each with its shard.
pub type After = Vec<(ShardIndex, Change)>;

/// The end of a plan.
pub struct Decision {
    /// Changes, each with the index of its step.
    pub changes: Changes,
    /// Changes after all steps have finished, each with its shard.
    pub then: After,
    /// The answer to the client.
    pub body: Body,
}

/// By whose permission a plan asks for a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The name's owner checks the caller's permission.
    Caller,
    /// The caller's permission is not needed, or was checked.
    System,
}

/// What the owner of a partition is asked to do with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AskedTo {
    /// Hold it as it is.
    Hold,
    /// Hold it if it is empty and without locks. Creates wait until the decision.
    Seal,
}

/// What a plan works with.
pub struct View<'v, 'c> {
    pub shard: &'v mut Shard,
    pub ctx: &'v mut Ctx<'c>,
    pub txn: TxnId,
    pub votes: Votes<'v>,
    pub credentials: &'v Credentials,
}

impl View<'_, '_> {
    /// Asks for the lock of a name.
    pub fn ask_name(&self, dir: DirRef, name: &Name, by: By) -> Next {
        let order = self.shard.order(name);
        let credentials = (by == By::Caller).then(|| self.credentials.clone());
        let prepare = Prepare::Name { dir, name: name.clone(), credentials };
        Next::Ask(Place::Order(dir, order), prepare)
    }

    /// Asks for the lock of a directory's content.
    pub fn ask_home(&self, dir: DirRef) -> Next {
        Next::Ask(Place::Home(dir), Prepare::Home(dir))
    }

    /// Asks for the lock of the content of a directory that is to be removed, with its partition 0.
    pub fn ask_removal(&self, dir: DirRef) -> Next {
        Next::Ask(Place::Home(dir), Prepare::Removal(dir))
    }

    /// Asks to hold or to seal a partition.
    pub fn ask_partition(&self, dir: DirRef, partition: PartitionIndex, to: AskedTo) -> Next {
        let start = Order(range(partition, Radix::MAX).start);
        let seal = to == AskedTo::Seal;
        Next::Ask(Place::Order(dir, start), Prepare::Partition { dir, partition, seal })
    }

    /// Asks shard 0 to tell all shards that these directories change for requests that come through
    /// them. Comes last, when all else is locked. `None`: there is nothing to tell, or it is told.
    pub fn ask_version(&self, dirs: Vec<Ino>) -> Option<Next> {
        if dirs.is_empty() || self.votes.version().is_some() {
            return None;
        }
        let graph = self.votes.claim().map(|(step, _)| step);
        Some(Next::Ask(Place::Shard(SHARD_0), Prepare::Invalidate { dirs, graph }))
    }

    /// Asks for the lock of a link inode.
    pub fn ask_link(&self, ino: Ino) -> Next {
        Next::Ask(Place::Link(ino), Prepare::Link { ino, new: false })
    }

    /// Asks for the lock of the place for a new link inode.
    pub fn ask_new_link(&self, ino: Ino) -> Next {
        Next::Ask(Place::Link(ino), Prepare::Link { ino, new: true })
    }
}

/// The steps so far, found by what they concern.
#[derive(Clone, Copy)]
pub struct Votes<'v>(pub &'v [Step]);

impl<'v> Votes<'v> {
    pub(crate) fn yes(self, is: impl Fn(&Prepare) -> bool) -> Option<(usize, &'v Seen)> {
        self.0.iter().enumerate().find_map(|(index, step)| match (&step.state, &step.seen) {
            (StepState::Yes, Some(seen)) if is(&step.prepare) => Some((index, seen)),
            _ => None,
        })
    }

    /// A locked name: its step, its entry, what new entries inherit.
    pub fn name(self, dir: DirRef, name: &Name) -> Option<(usize, Option<&'v EntryRows>, Inherit)> {
        let is = |p: &Prepare| matches!(p, Prepare::Name { dir: d, name: n, .. } if (*d, n) == (dir, name));
        match self.yes(is)? {
            (step, Seen::Name { entry, inherit }) => Some((step, entry.as_ref(), *inherit)),
            _ => None,
        }
    }

    /// A locked content record: its step, its attributes, its generation.
    pub fn home(self, dir: DirRef) -> Option<(usize, &'v Attr, u64)> {
        match self.yes(|p| *p == Prepare::Home(dir) || *p == Prepare::Removal(dir))? {
            (step, Seen::Home { base, generation, .. }) => Some((step, base, *generation)),
            _ => None,
        }
    }

    /// The claim that the transaction has, with its step.
    pub fn claim(self) -> Option<(u16, &'v Claim)> {
        let (step, _) = self.yes(|p| matches!(p, Prepare::Graph(_)))?;
        match &self.0[step].prepare {
            Prepare::Graph(claim) => Some((step as u16, claim)),
            _ => None,
        }
    }

    /// The version under which all shards know of the change.
    pub fn version(self) -> Option<u64> {
        match self.yes(|p| matches!(p, Prepare::Invalidate { .. }))? {
            (_, Seen::Version(version)) => Some(*version),
            _ => None,
        }
    }

    /// Number of subdirectories in the held partitions of a directory.
    pub fn subdirs(self, dir: DirRef) -> u64 {
        let seen = self.partitions(dir).map(|(step, _)| match &self.0[step].seen {
            Some(Seen::Partition(_, subdirs)) => *subdirs,
            _ => 0,
        });
        seen.fold(0, u64::saturating_add)
    }

    /// A locked link inode, or place for one: its step, and the attributes if the inode exists.
    pub fn link(self, ino: Ino) -> Option<(usize, Option<&'v Attr>)> {
        let is = |p: &Prepare| matches!(p, Prepare::Link { ino: i, .. } if *i == ino);
        match self.yes(is)? {
            (step, Seen::Link(attr, _)) => Some((step, Some(attr))),
            (step, _) => Some((step, None)),
        }
    }

    /// The reserved id of a new directory, with its step.
    pub fn new_home(self) -> Option<(usize, DirId)> {
        let (step, _) = self.yes(|p| matches!(p, Prepare::NewHome(_)))?;
        match &self.0[step].prepare {
            Prepare::NewHome(id) => Some((step, *id)),
            _ => None,
        }
    }

    /// All held partitions of a directory: step and index.
    pub fn partitions(self, dir: DirRef) -> impl Iterator<Item = (usize, PartitionIndex)> + 'v {
        self.0.iter().enumerate().filter_map(move |(step, s)| match &s.prepare {
            Prepare::Partition { dir: d, partition, .. }
                if *d == dir && s.state == StepState::Yes =>
            {
                Some((step, *partition))
            }
            Prepare::Removal(d) if *d == dir && s.state == StepState::Yes => {
                Some((step, PartitionIndex(0)))
            }
            _ => None,
        })
    }

    /// A partition of a directory that is not yet held. The directory's home must have voted.
    pub fn next_partition(self, dir: DirRef) -> Option<PartitionIndex> {
        let mut leaves = Leaves::default();
        for step in self.0 {
            match (&step.prepare, &step.seen) {
                (Prepare::Home(d), Some(seen)) if *d == dir => leaves.voted(None, seen),
                (Prepare::Removal(d), Some(seen)) if *d == dir => {
                    leaves.voted(Some(PartitionIndex(0)), seen);
                }
                (Prepare::Partition { dir: d, partition, .. }, Some(seen)) if *d == dir => {
                    leaves.voted(Some(*partition), seen);
                }
                _ => {}
            }
        }
        leaves.next()
    }

    /// Changes that remove an empty directory, and changes that come after. The directory's home
    /// and partitions must be held.
    pub fn removal(self, dir: DirRef) -> (Changes, After) {
        let mut changes = Vec::new();
        let mut then = Vec::new();
        let Some((home, ..)) = self.home(dir) else { return (changes, then) };
        let home_shard = self.0[home].to;
        let mut tombstone = false;
        for (step, partition) in self.partitions(dir) {
            tombstone |= self.0[step].to != home_shard;
            changes.push((step, Change::DropPartition { dir, partition }));
        }
        changes.push((home, Change::DropHome { dir, tombstone }));
        if tombstone {
            then.push((home_shard, Change::Bury(dir)));
        }
        (changes, then)
    }
}
