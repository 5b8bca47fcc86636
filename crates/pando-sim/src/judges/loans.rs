//! Judges what holders of lent parts have answered and shards have not applied
//! (docs/design/delegations.md).
//!
//! ```text
//!   holder:  1 2 3 4 5 …… answers under the grant        shard: over after 3 ─► others see the part
//!                  └─ lost: 4 and 5, and all that was answered on their ground
//! ```
//!
//! A grant is over when its shard says so: after a return or a fence. Its elements above the number
//! that the shard has applied are lost.
//!
//! 1. Nothing is answered under a grant that is over.
//! 2. What a holder sets aside is exactly what is lost. What dies with a holder and is lost was not
//!    known to be durable.
//! 3. Until a grant is over, all that its holder answered is there. So the history up to that time
//!    has an order with the lost changes in it, in which nobody else looks at the part.
//! 4. Afterwards nothing of it is there. So the whole history has an order without the lost
//!    changes, and without the answers on their ground.

use std::collections::BTreeMap;

use pando_types::{Credentials, TxnId};

use crate::check::{ElementOf, Event, EventIndex, Fate, History, Loss, file_of, reads};
use crate::model::{Call, Op, Who};

/// Number of the first session that stands for opens which a fence may have lost. No client has it,
/// and neither have sessions that linger.
const GHOSTS: Who = Who::MAX / 2;

impl History {
    /// A holder answers a request of an operation under a grant that has `number` elements by then.
    pub fn answers(&mut self, event: EventIndex, (grant, number): ElementOf) {
        let Some(event) = self.event_mut(event) else { return };
        let who = event.call.who;
        event.lent.on.insert(grant, number);
        let op = event.call.op.clone();
        self.loans.answers(who, (grant, number), &op);
    }

    /// The histories that have an order each: the whole one as it stands in the end, and before it
    /// those up to each moment at which changes were lost, with a name.
    #[must_use]
    pub fn views(&self) -> (Vec<(String, Self)>, Self) {
        let losses = self.loans.losses();
        let is_of_changes = |(_, loss): &(usize, &Loss)| loss.is_of_changes;
        let before = losses.iter().enumerate().filter(is_of_changes).map(|(nth, loss)| {
            let name = format!("before the loss of {} at {}", loss.grant, loss.ended.at);
            (name, self.without(&losses[..nth]).until(loss.ended.at))
        });
        (before.collect(), self.without(&losses))
    }

    /// Number of events that a history lacks which was made of this one.
    #[must_use]
    pub fn left_out(&self, made: &Self) -> usize {
        // Other sessions that no client has are in both.
        let of_clients = |history: &Self| {
            history.events().iter().filter(|event| event.call.op != Op::EndSession).count()
        };
        of_clients(self) - of_clients(made)
    }

    /// The history up to a moment.
    fn until(mut self, at: u64) -> Self {
        self.retain(|event| event.invoked < at);
        for event in self.all_mut() {
            if event.returned.as_ref().is_some_and(|(returned, _)| *returned >= at) {
                (event.returned, event.asked) = (None, true);
            }
            if matches!(event.fate, Fate::Ran(ran, _) if ran >= at) {
                event.fate = Fate::Unknown;
            }
            event.applied = event.applied.filter(|(applied, _)| *applied < at);
        }
        self
    }

    /// The history without what was lost.
    fn without(&self, losses: &[Loss]) -> Self {
        let mut left = self.clone();
        if losses.is_empty() {
            return left;
        }
        let applied: BTreeMap<TxnId, u64> =
            losses.iter().map(|loss| (loss.grant, loss.ended.applied)).collect();
        let is_above = |(grant, number): (&TxnId, &u64)| {
            applied.get(grant).is_some_and(|applied| number > applied)
        };
        let is_lost = |event: &Event| event.lent.made.iter().any(|(g, n)| is_above((g, n)));
        let mut believers: BTreeMap<Who, u64> = BTreeMap::new();
        for event in self.events().iter().filter(|event| is_lost(event)) {
            let since = believers.entry(event.call.who).or_insert(event.invoked);
            *since = event.invoked.min(*since);
        }
        left.retain(|event| {
            let is_on_lost_ground = event.lent.on.iter().any(is_above);
            !(is_lost(event) || is_on_lost_ground && changes_nothing(event))
        });
        let is_on_any =
            |event: &Event| event.lent.on.keys().any(|grant| applied.contains_key(grant));
        // Each may have happened, whatever its client did then.
        let mut may_happen = Vec::new();
        left.retain(|event| {
            let is_lost = matches!(event.call.op, Op::Release(_)) && is_on_any(event);
            if is_lost {
                may_happen.push((event.call.clone(), event.invoked));
            }
            !is_lost
        });
        for (nth, event) in left.all_mut().enumerate() {
            let since = believers.get(&event.call.who);
            event.believes = since.is_some_and(|since| event.invoked >= *since)
                && file_of(&event.call.op).is_some();
            if is_on_any(event)
                && matches!(event.call.op, Op::Open { .. } | Op::Create { open: true, .. })
            {
                let who = GHOSTS + nth as Who;
                event.call.who = who;
                let call = Call { who, credentials: Credentials::ROOT, op: Op::EndSession };
                may_happen.push((call, event.invoked));
            }
        }
        for (call, since) in may_happen {
            left.may_happen(call, since);
        }
        left
    }
}

/// Whether an operation has changed nothing at its shard, but opens of its client.
fn changes_nothing(event: &Event) -> bool {
    match &event.returned {
        Some((_, Err(_))) => true,
        Some((_, Ok(_))) => {
            reads(event.call.op.inner())
                || event.lent.made.is_empty()
                    && matches!(
                        event.call.op,
                        Op::Open { .. } | Op::Create { exclusive: false, .. }
                    )
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use pando_lent::SetAside;
    use pando_types::lend::{Act, Change, Element, Standing};
    use pando_types::{Errno, FileKind, Ino, Name, ShardIndex};

    use super::*;
    use crate::check::linearize;
    use crate::model::{Outcome, Tree};

    const GRANT: TxnId = TxnId { shard: ShardIndex(0), number: 7 };

    fn name() -> Name {
        Name::new(b"a").unwrap()
    }

    fn look() -> Op {
        Op::Lookup(Ino::ROOT, name())
    }

    /// A client makes a file under a grant, and looks at it.
    struct Story {
        history: History,
        lanes: [(usize, usize); 2],
        tree: Tree,
    }

    impl Story {
        fn new() -> Self {
            let mut history = History::default();
            let lanes = [(); 2].map(|()| (history.lane(), history.lane()));
            let mut story = Self { history, lanes, tree: Tree::new() };
            let (kind, symlink) = (FileKind::Regular, Vec::new());
            let (dir, name, exclusive) = (Ino::ROOT, name(), true);
            let create =
                Op::Create { dir, name, kind, mode: 0o644, symlink, exclusive, open: false };
            story.holder(create, true);
            story.holder(look(), false);
            story
        }

        fn performs(
            &mut self,
            who: Who,
            op: Op,
            (is_lent, is_new): (bool, bool),
            outcome: Option<Outcome>,
        ) {
            let call = Call { who, credentials: Credentials::ROOT, op };
            let outcome = outcome.unwrap_or_else(|| self.tree.apply(&call, Ino(100)));
            let (lane, aside) = self.lanes[who as usize];
            let event = self.history.invoke(lane, call);
            if is_new {
                self.history.changes(event, (GRANT, 1), None);
            }
            if is_lent {
                self.history.answers(event, (GRANT, 1));
            }
            self.history.respond(event, outcome, aside);
        }

        fn holder(&mut self, op: Op, is_new: bool) {
            self.performs(0, op, (true, is_new), None);
        }

        /// Another client looks, and finds this, or what is there.
        fn other(&mut self, outcome: Option<Outcome>) {
            self.performs(1, look(), (false, false), outcome);
        }

        fn ends_after(&mut self, applied: u64) {
            self.history.grant_ends(GRANT, Some((applied, true)));
        }

        fn sets_aside(&mut self) {
            let change = Change { asked: Vec::new(), stamp: 0, ino: Ino(100), digest: 0, after: 0 };
            let element = Element { grant: GRANT, number: 1, act: Act::Change(change) };
            let lost = SetAside::of(GRANT.shard, &element, Standing::Fenced);
            self.history.loans.sets_aside(&Vec::from_iter(lost));
        }

        fn is_broken_as(&self, words: &str) {
            let judged = self.judged();
            assert!(judged.clone().is_err_and(|what| what.contains(words)), "{judged:?}");
        }

        fn judged(&self) -> Result<(), String> {
            self.history.loans.judge()?;
            let (before, last) = self.history.views();
            let views = before.into_iter().chain([("in the end".to_owned(), last)]);
            for (name, view) in views {
                linearize(&view).map_err(|failure| format!("{name}: {failure}"))?;
            }
            Ok(())
        }
    }

    #[test]
    fn what_is_lost_is_there_until_the_end_and_gone_afterwards() {
        let mut story = Story::new();
        story.ends_after(0);
        story.sets_aside();
        story.other(Some(Err(Errno::ENOENT)));
        assert_eq!(story.judged(), Ok(()));
    }

    #[test]
    fn what_is_applied_stays() {
        let mut story = Story::new();
        story.ends_after(1);
        story.other(None);
        assert_eq!(story.judged(), Ok(()));
        story.other(Some(Err(Errno::ENOENT)));
        story.is_broken_as("in the end: no order exists");
    }

    #[test]
    fn what_is_lost_and_seen_later_is_found() {
        let mut story = Story::new();
        story.ends_after(0);
        story.sets_aside();
        story.other(None);
        story.is_broken_as("in the end: no order exists");
    }

    #[test]
    fn a_look_of_another_before_the_end_is_found() {
        let mut story = Story::new();
        story.other(Some(Err(Errno::ENOENT)));
        story.ends_after(0);
        story.sets_aside();
        story.is_broken_as("before the loss of");
    }

    #[test]
    fn what_is_set_aside_is_what_is_lost() {
        let mut story = Story::new();
        story.ends_after(0);
        story.is_broken_as("did not set it aside");
        let mut story = Story::new();
        story.ends_after(1);
        story.sets_aside();
        story.is_broken_as("and is applied");
    }

    #[test]
    fn an_answer_after_the_end_is_found() {
        let mut story = Story::new();
        story.ends_after(1);
        story.holder(look(), false);
        story.is_broken_as("after its end at");
    }
}
