//! The right to move a directory to another parent: walking up, asking, and walking anew when
//! overtaken ([`crate::txn::graph`]).

use alloc::vec::Vec;
use pando_types::op::Place;
use pando_types::peer::{Claim, Prepare, Seen};
use pando_types::{DirRef, Errno};

use super::{Next, View};
use crate::ctx::Stop;
use crate::sessions::COORDINATOR;
use crate::txn::{Step, StepState};

/// Walks before the graph is wanted alone.
const WALKS: usize = 3;

/// Who goes deeper wants the graph alone: all that is above is part of the claim.
const ABOVE_MAX: usize = 1024;

/// Steps beyond which nobody walks: they are numbered with 16 bits, and some are to come.
const STEPS_MAX: usize = 60_000;

/// What looks have told, in the order in which they were asked for.
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

/// What a walk has come to.
enum Walk {
    /// The root, or what moves, having come through these.
    Whole(Vec<DirRef>),
    /// A directory that has not been looked at.
    At(DirRef),
    /// So deep that it is not told any more.
    Deep,
    /// Nowhere: it has come to a directory again. Looks of different moments may say so, and a
    /// damaged volume.
    Circle,
}

/// Walks up from `to`, by looks since the step `since`.
fn walk(view: &View<'_, '_>, since: usize, moved: DirRef, to: DirRef, max: usize) -> Walk {
    let mut looks = Looks { steps: &view.votes.0[since..], next: 0 };
    let (mut at, mut above) = (to, Vec::new());
    while at != DirRef::ROOT {
        if above.len() == max {
            return Walk::Deep;
        }
        // Each directory on a way has a look of its own.
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
    Next::Ask(Place::Shard(COORDINATOR), Prepare::Graph(claim))
}

/// Wants the graph alone.
pub(super) fn claim_all(view: &View<'_, '_>) -> Option<Next> {
    view.votes.claim().is_none().then(|| ask(Claim::Alone))
}

/// What is known of a new parent.
pub(super) enum Claimed {
    /// Nothing yet: this is to be asked.
    Ask(Next),
    /// It is what moves, or beneath it, and stays so until the claim ends.
    Beneath,
    /// It is neither, and stays so until the claim ends.
    Apart,
}

/// Walks up from a directory, who has the graph alone.
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

/// Gets the right to move a directory to another parent. `since` is when the first walk began.
pub(super) fn claim(
    view: &View<'_, '_>,
    moved: DirRef,
    to: DirRef,
    since: &mut Option<u64>,
) -> Result<Claimed, Stop> {
    match view.votes.claim() {
        Some((_, Claim::Alone)) => return walk_alone(view, moved, to),
        // What was found with nothing held was so when the claim was given.
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
        _ => *since.get_or_insert_with(|| view.shard.versions.known().unwrap_or(0)),
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
