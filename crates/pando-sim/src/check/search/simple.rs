//! The search for an order (Wing & Gong, with Lowe's set of states that were already seen).
//!
//! 1. An operation may come next if no other one that is left returned before it began.
//! 2. An operation that changes nothing in any state is taken as soon as it agrees with the model.
//!    If any order exists, so does one with it here.
//! 3. An operation without an answer may come at any time after it began, or never.
//! 4. If a history takes long, the search looks closely once in between
//!    ([`closely`](super::closely)).

use super::closely::closely;
use super::frontier::Search;
use super::order::excuses;
use crate::check::excuse::{Excuse, Excuses};
use crate::check::report::Why;
use crate::check::{Failure, History};
use crate::model::Tree;

/// Steps after which the search gives up. An honest history needs far fewer.
const STEPS_MAX: u64 = 3_000_000;

/// Steps after which sessions that linger are included.
const STEPS_PLAIN: u64 = 1_000_000;

/// Steps after which the close search is tried.
const STEPS_SIMPLE: u64 = 30_000;

/// Finds an order of `history`, listings included. Returns the excuses that the order needs.
///
/// Few histories have sessions that linger, and such a session may end at any time or never. So the
/// search includes them only if it finds no order without them.
pub fn linearize(history: &History) -> Result<Excuses, Box<Failure>> {
    let all = history.with_sights();
    if let Some(plain) = all.without_lingering()
        && let Ok(excuses) = linearize_told(&plain, STEPS_PLAIN)
    {
        return Ok(excuses);
    }
    let mut excuses = linearize_told(&all, STEPS_MAX)?;
    let lingering = all.without_lingering().map_or(0, |_| 1);
    Excuse::Lingering.count(lingering, &mut excuses);
    Ok(excuses)
}

fn linearize_told(history: &History, steps_max: u64) -> Result<Excuses, Box<Failure>> {
    let mut search = Search::new(history);
    let mut frames = vec![search.advance(Tree::new())];
    loop {
        let Some(frame) = frames.last_mut() else { return Err(search.failure(Why::NoOrder)) };
        if search.is_done() {
            return Ok(excuses(history, &search.order));
        }
        search.steps += 1;
        if search.steps == STEPS_SIMPLE
            && let Some(excuses) = closely(history)
        {
            return Ok(excuses);
        }
        if search.steps > steps_max {
            return Err(search.failure(Why::GaveUp));
        }
        search.unwind(frame.taken);
        let Some((lane, ino)) = frame.choices.pop() else {
            frames.pop();
            continue;
        };
        let Some(tree) = search.attempt(&frame.tree, lane, ino) else { continue };
        search.take(lane, ino);
        let next = search.advance(tree);
        if search.seen.insert((search.places(), next.tree.fingerprint())) {
            frames.push(next);
        }
    }
}
