//! The claim to move a directory to another parent: the walk up, the request, and a new walk if it
//! was overtaken ([`crate::txn::graph`]).

use alloc::vec::Vec;
use pando_types::op::Place;
use pando_types::peer::{Claim, Prepare, Seen};
use pando_types::{DirRef, Errno};

use crate::contract::SHARD_0;
use crate::state::stop::Stop;
use crate::state::txn::transaction::{Step, StepState};
use crate::txn::plan::view::{Next, View};

/// Number of walks before the transaction asks for the graph alone.
const WALKS: usize = 3;

/// Most directories in a claim. A deeper walk asks for the graph alone.
const ABOVE_MAX: usize = 1024;

/// Number of steps beyond which no walk goes on. Steps have 16-bit numbers, and some are still to
/// come.
const STEPS_MAX: usize = 60_000;

/// Parents that looks have told, in the order of the looks.
struct Looks<'v> {
    steps: &'v [Step],
    next: usize,
}

impl Looks<'_> {
    fn parent(&mut self, dir: DirRef) -> Option<DirRef> {
        let (before, after) = self.steps.split_at(self.next);
        let told = |(nth, step): (usize, &Step)| match (&step.prepare, &step.seen) {
            (Prepare::Look(looked), Some(Seen::Home { parent, .. })) if *looked == dir => {
                Some((nth, *parent))
            }
            _ => None,
        };
        let found = (self.next..).zip(after).find_map(told);
        let (nth, parent) = found.or_else(|| (0..).zip(before).find_map(told))?;
        self.next = nth + 1;
        Some(parent)
    }
}

/// Result of a walk.
enum Walk {
    /// The walk came to the root, or to the directory that moves, through these directories.
    Whole(Vec<DirRef>),
    /// The walk came to a directory that has not been looked at.
    At(DirRef),
    /// The walk went too deep.
    Deep,
    /// The walk came to a directory again. Looks of different moments may show that, and so may a
    /// damaged volume.
    Circle,
}

/// Walks up from `to`, by the looks since step `since`.
fn walk(view: &View<'_, '_>, since: usize, moved: DirRef, to: DirRef, max: usize) -> Walk {
    let mut looks = Looks { steps: &view.votes.0[since..], next: 0 };
    let (mut at, mut above) = (to, Vec::new());
    while at != DirRef::ROOT {
        if above.len() == max {
            return Walk::Deep;
        }
        // Each directory on a path has a look of its own.
        if above.len() > looks.steps.len() {
            return Walk::Circle;
        }
        above.push(at);
        if at == moved {
            break;
        }
        match looks.parent(at) {
            Some(parent) => at = parent,
            None => return Walk::At(at),
        }
    }
    Walk::Whole(above)
}

fn look(view: &View<'_, '_>, dir: DirRef) -> Result<Next, Stop> {
    if view.votes.0.len() > STEPS_MAX {
        return Err(Errno::ENAMETOOLONG.into());
    }
    Ok(Next::Ask(Place::Home(dir), Prepare::Look(dir)))
}

fn ask(claim: Claim) -> Next {
    Next::Ask(Place::Shard(SHARD_0), Prepare::Graph(claim))
}

/// Asks for the graph alone.
pub(super) fn claim_all(view: &View<'_, '_>) -> Option<Next> {
    view.votes.claim().is_none().then(|| ask(Claim::Alone))
}

/// What is known of a new parent.
pub(super) enum Claimed {
    /// Nothing yet: ask for this.
    Ask(Next),
    /// The new parent is the directory that moves, or beneath it, until the claim ends.
    Beneath,
    /// The new parent is neither the directory that moves nor beneath it, until the claim ends.
    Apart,
}

/// Walks up from a directory, for a transaction that has the graph alone.
pub(super) fn walk_alone(
    view: &View<'_, '_>,
    moved: DirRef,
    from: DirRef,
) -> Result<Claimed, Stop> {
    let since = view.votes.claim().map_or(0, |(step, _)| usize::from(step) + 1);
    match walk(view, since, moved, from, usize::MAX) {
        Walk::Whole(above) if above.contains(&moved) => Ok(Claimed::Beneath),
        Walk::At(dir) => Ok(Claimed::Ask(look(view, dir)?)),
        Walk::Circle => Err(Errno::EIO.into()),
        Walk::Whole(_) | Walk::Deep => Ok(Claimed::Apart),
    }
}

/// Gets the claim to move a directory to another parent. `since` is the number at the begin of the
/// first walk.
pub(super) fn claim(
    view: &View<'_, '_>,
    moved: DirRef,
    to: DirRef,
    since: &mut Option<u64>,
) -> Result<Claimed, Stop> {
    match view.votes.claim() {
        Some((_, Claim::Alone)) => return walk_alone(view, moved, to),
        // What the walk found without a lock was still true when the claim was given.
        Some((_, Claim::Move { above, .. })) => {
            let beneath = above.contains(&moved);
            return Ok(if beneath { Claimed::Beneath } else { Claimed::Apart });
        }
        None => {}
    }
    let is_refused = |step: &&Step| {
        matches!((&step.prepare, step.state), (Prepare::Graph(_), StepState::Refused(_)))
    };
    let steps = view.votes.0;
    let walks = steps.iter().filter(is_refused).count();
    let last = steps.iter().rposition(|step| is_refused(&step));
    let since = match last.and_then(|last| steps[last].seen.as_ref()) {
        Some(Seen::Position(number)) => *number,
        _ => *since.get_or_insert_with(|| view.shard.paths.versions.known().unwrap_or(0)),
    };
    if walks == WALKS {
        return Ok(Claimed::Ask(ask(Claim::Alone)));
    }
    Ok(Claimed::Ask(match walk(view, last.map_or(0, |last| last + 1), moved, to, ABOVE_MAX) {
        Walk::Whole(above) => ask(Claim::Move { moved, above, since }),
        Walk::At(dir) => look(view, dir)?,
        Walk::Deep | Walk::Circle => ask(Claim::Alone),
    }))
}
