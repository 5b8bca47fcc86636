//! The excuses that an order needs.

use pando_types::Ino;

use super::attempt::attempt;
use crate::check::event::EventIndex;
use crate::check::excuse::{Excuse, Excuses};
use crate::check::history::History;
use crate::model::Tree;

/// The excuses that `order` needs. It has events, each with the ino that the event made.
pub(super) fn excuses(history: &History, order: &[(EventIndex, Ino)]) -> Excuses {
    let (mut excuses, mut tree) = (Excuses::new(), Tree::new());
    for (index, ino) in order {
        let event = &history.events()[*index];
        Excuse::LooseWalk.count(usize::from(event.loose), &mut excuses);
        if let Some((after, excuse)) = attempt(event, &tree, *ino) {
            tree = after;
            excuse.inspect(|excuse| excuse.count(1, &mut excuses));
        }
    }
    excuses
}
