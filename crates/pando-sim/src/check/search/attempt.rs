//! Tries one operation on a tree of the model.

use pando_types::{Credentials, Ino};

use crate::check::agree::{Verdict, compare};
use crate::check::event::{Event, Fate, reads};
use crate::check::excuse::Excuse;
use crate::check::history::created;
use crate::model::{Call, Tree};

/// The tree after an operation, if the model agrees with its answer, and the excuse that was
/// needed.
pub(super) fn attempt(event: &Event, tree: &Tree, ino: Ino) -> Option<(Tree, Option<Excuse>)> {
    if let Some(sight) = &event.sight {
        let to = tree.node(sight.dir).ok().and_then(|dir| dir.entries.get(&sight.name));
        return (to == sight.to.as_ref()).then(|| (tree.clone(), None));
    }
    let Some((_, observed)) = &event.returned else { return unanswered(event, tree, ino) };
    let mut after = tree.clone();
    let new = observed.as_ref().ok().and_then(|value| created(event.call.op.inner(), value));
    let expected = after.apply(&event.call, new.unwrap_or(ino));
    match compare(event, tree, &expected, observed) {
        Verdict::Same => Some((after, None)),
        Verdict::Alike(excuse) => Some((after, Some(excuse))),
        Verdict::Excused(excuse) => Some((tree.clone(), Some(excuse))),
        Verdict::Different if event.checked_before => {
            after.clone_from(tree);
            let expected = after.apply(&unchecked(event), ino);
            let is_same = compare(event, tree, &expected, observed) == Verdict::Same;
            is_same.then_some((after, Some(Excuse::CheckedBefore)))
        }
        Verdict::Different => None,
    }
}

/// The tree after an operation without an answer, if it changes the tree or is known to have run.
pub(super) fn unanswered(event: &Event, tree: &Tree, ino: Ino) -> Option<(Tree, Option<Excuse>)> {
    if tree.node(ino).is_ok() {
        return None;
    }
    let mut after = tree.clone();
    let ran = after.apply(&event.call, ino).is_ok();
    if !matches!(event.fate, Fate::Ran(..)) {
        // If it fails or changes nothing, it is as if it never ran.
        let is_noticed = ran && after.fingerprint() != tree.fingerprint();
        return is_noticed.then_some((after, None));
    }
    if ran || !event.checked_before {
        return ran.then_some((after, None));
    }
    after.clone_from(tree);
    let ran = after.apply(&unchecked(event), ino).is_ok();
    ran.then_some((after, Some(Excuse::CheckedBefore)))
}

/// The call as root, so that no permission is checked.
pub(super) fn unchecked(event: &Event) -> Call {
    Call { credentials: Credentials::ROOT, ..event.call.clone() }
}

pub(super) fn returned(event: &Event) -> u64 {
    event.ended().unwrap_or(u64::MAX)
}

/// Whether an order must contain the event.
pub(super) fn is_known(event: &Event) -> bool {
    event.ended().is_some() && !event.was_nothing()
}

/// Whether an operation changes nothing, whatever the tree is: it only reads, or it failed.
pub(super) fn only_tells(event: &Event) -> bool {
    match &event.returned {
        Some((_, Err(_))) => true,
        Some((_, Ok(_))) => reads(event.call.op.inner()),
        None => false,
    }
}
