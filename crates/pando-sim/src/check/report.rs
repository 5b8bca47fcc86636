//! The report on a history that has no order.

use std::fmt;

use super::{Event, EventIndex, History};
use crate::model::{Outcome, Tree};

/// Number of operations that are shown of the longest order.
const SHOWN: usize = 120;

/// Where the search got stuck.
#[derive(Debug)]
pub struct Failure {
    taken: usize,
    last: Vec<Event>,
    total: usize,
    stuck: Vec<(Event, Outcome)>,
    tree: Tree,
    /// Why the search ended.
    pub why: Why,
}

/// Why a search has found no order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// No order exists.
    NoOrder,
    /// The search gave up, so an order may still exist.
    GaveUp,
}

impl Failure {
    pub(super) fn new(
        history: &History,
        taken: &[EventIndex],
        stuck: Vec<(EventIndex, Outcome)>,
        tree: Tree,
        why: Why,
    ) -> Self {
        let stuck = stuck.into_iter().map(|(i, model)| (history.events()[i].clone(), model));
        let total = history.events().len();
        let last = taken[taken.len().saturating_sub(SHOWN)..].iter();
        let last = last.map(|index| history.events()[*index].clone()).collect();
        let taken = taken.len();
        Self { taken, last, total, stuck: stuck.collect(), tree, why }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Why::NoOrder => "no order exists",
            Why::GaveUp => "the search gave up",
        };
        writeln!(f, "{why}; the best one holds {} of {} operations", self.taken, self.total)?;
        writeln!(f, "the tree there:")?;
        for (ino, node) in self.tree.nodes() {
            writeln!(
                f,
                "  {ino:?} {:?} {:o} {}:{} nlink {} {} bytes, opens {:?}, in {:?}",
                node.kind,
                node.mode,
                node.uid,
                node.gid,
                node.nlink,
                node.data.len(),
                node.opens,
                node.parent
            )?;
            for (name, (child, kind)) in &node.entries {
                writeln!(f, "      {name} -> {child:?} {kind:?}")?;
            }
        }
        writeln!(f, "its last operations:")?;
        for event in self.last.iter().filter(|event| event.sight.is_none()) {
            let Event { lane, invoked, call, returned, .. } = event;
            write!(f, "  {invoked}: lane {lane} uid {} {:?}", call.credentials.uid, call.op)?;
            match returned {
                Some((at, outcome)) => writeln!(f, " -> {at}: {outcome:?}")?,
                None => writeln!(f, " -> never answered, {:?}", event.fate)?,
            }
        }
        writeln!(f, "what may come next:")?;
        for (event, model) in &self.stuck {
            if let Some(sight) = &event.sight {
                let Event { lane, invoked, .. } = event;
                writeln!(f, "  lane {lane} at {invoked}: {:?} saw {sight:?}", event.call.op)?;
                continue;
            }
            writeln!(
                f,
                "  lane {} at {}: {:?} uid {}",
                event.lane, event.invoked, event.call.op, event.call.credentials.uid
            )?;
            match &event.returned {
                Some((at, outcome)) => writeln!(f, "      system at {at}: {outcome:?}")?,
                None => writeln!(f, "      system: never answered, {:?}", event.fate)?,
            }
            writeln!(f, "      model: {model:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
