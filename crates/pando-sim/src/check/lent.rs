//! What is known of parts that were lent: who answered from them, how each grant ended, and what
//! its holder set aside.

use std::collections::{BTreeMap, BTreeSet};

use pando_core::record::Grant;
use pando_lent::SetAside;
use pando_types::lend::{Act, Element, Standing};
use pando_types::{ShardIndex, TxnId};

use crate::model::{Op, Who};

/// An element, by its grant and its number.
pub type ElementOf = (TxnId, u64);

/// What was answered of an operation from a lent part.
#[derive(Clone, Default, Debug)]
pub struct Lent {
    /// The grants, each with the number of its last element then.
    pub on: BTreeMap<TxnId, u64>,
    /// The elements that the operation made.
    pub made: Vec<ElementOf>,
}

/// How a grant came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Elements up to this number were applied.
    pub applied: u64,
    /// Whether the shard took the part back by itself.
    pub is_fenced: bool,
    /// When, on the history's clock. Nobody but the holder has seen the part before.
    pub at: u64,
}

/// What is known of grants.
#[derive(Clone, Default, Debug)]
pub struct Loans {
    /// Who has each grant, and the number of its last element.
    holders: BTreeMap<TxnId, (Who, u64)>,
    ended: BTreeMap<TxnId, Ended>,
    /// Grants of which an element was refused, each with the number of those that were applied.
    refused: BTreeMap<TxnId, u64>,
    /// The most amendments that each grant had, and grants that had fewer later.
    amended: BTreeMap<TxnId, u64>,
    fell: BTreeSet<TxnId>,
    /// Shards of which blocks could not be read for a while.
    pub unreadable: BTreeSet<ShardIndex>,
    /// What holders have set aside.
    set_aside: BTreeSet<ElementOf>,
    /// What was lost with the machines of dead holders.
    died: BTreeSet<ElementOf>,
    /// Number of journals of dead holders that were sent.
    pub journals_sent: u64,
    /// Requests that clients answered from what they had read.
    pub remembered: u64,
    /// Requests that kernels answered.
    pub known_to_kernels: u64,
    /// Files that clients opened without telling a shard, and those of which they told one then.
    pub untold: (u64, u64),
    /// Number of journals that could not be written.
    pub journals_failed: u64,
    /// Faults that were found, in words.
    broken: Vec<String>,
}

/// A grant of which something is lost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The grant.
    pub grant: TxnId,
    /// Its end.
    pub ended: Ended,
    /// Whether changes are lost, or only opens.
    pub is_of_changes: bool,
}

fn changes(elements: &[Element]) -> impl Iterator<Item = ElementOf> + '_ {
    let is_change = |it: &&Element| matches!(it.act, Act::Change(_));
    elements.iter().filter(is_change).map(|it| (it.grant, it.number))
}

impl Loans {
    /// A shard writes the record of a grant.
    pub fn sees(&mut self, grant: TxnId, row: &Grant) {
        // The holder of a fenced part tells what it has open.
        let is_late_return = |ended: &Ended| {
            ended.is_fenced && row.standing == Standing::Returned && row.applied == ended.applied
        };
        if self.ended.get(&grant).is_some_and(|ended| !is_late_return(ended)) {
            self.broken.push(format!("{grant} is over, and goes on: {row:?}"));
        }
        let amended = self.amended.entry(grant).or_default();
        if row.amended < *amended {
            self.fell.insert(grant);
        }
        *amended = row.amended.max(*amended);
        match row.standing {
            Standing::Refused => {
                let applied = *self.refused.entry(grant).or_insert(row.applied);
                if row.applied > applied {
                    self.broken.push(format!("{grant} is refused, and goes on: {row:?}"));
                }
            }
            Standing::Stands => drop(self.refused.remove(&grant)),
            _ => {}
        }
    }

    /// A shard has ended a grant, or has lost that again. Returns what was known before.
    pub fn ends(&mut self, grant: TxnId, ended: Option<Ended>) -> Option<Ended> {
        let known = self.ended.get(&grant).copied();
        match ended {
            Some(ended) => drop(self.ended.entry(grant).or_insert(ended)),
            None => drop(self.ended.remove(&grant)),
        }
        known
    }

    /// A holder has set these elements aside, or whoever has sent its journal.
    pub fn sets_aside(&mut self, lost: &[SetAside]) {
        for lost @ SetAside { element, .. } in lost {
            if !self.is_reason(lost) {
                self.broken.push(format!("set aside for no reason: {lost:?}"));
            }
            self.set_aside.insert(*element);
        }
    }

    /// Whether this was to be set aside. A shard that has heard of the end of a session refuses its
    /// writes, as their objects may be gone. It refuses what rests on an amendment that it has lost
    /// with its power, and what needs a block that it
    /// cannot read. It refuses nothing else.
    fn is_reason(&self, lost: &SetAside) -> bool {
        let (grant, number) = lost.element;
        match lost.why {
            Standing::Fenced | Standing::Returned => true,
            Standing::Refused => self.refused.get(&grant).is_some_and(|applied| {
                number > applied + 1
                    || lost.what == "a write"
                    || self.fell.contains(&grant)
                    || self.unreadable.contains(&lost.shard)
            }),
            // The directory's transaction was undone: its coordinator had lost power.
            Standing::Unknown => !self.ended.contains_key(&grant),
            Standing::Stands | Standing::Awaited => false,
        }
    }

    /// These elements were nowhere but in the memory and the journals of a holder, and these are
    /// gone.
    pub fn dies(&mut self, not_durable: &[Element]) {
        self.died.extend(changes(not_durable));
    }

    /// Notes a fault, in words.
    pub fn breaks(&mut self, what: String) {
        self.broken.push(what);
    }

    /// Number of elements that were set aside, and of those that were lost with a machine.
    #[must_use]
    pub fn lost_counts(&self) -> (u64, u64) {
        let died = self.died.iter().filter(|it| self.is_lost(**it)).count();
        (self.set_aside.len() as u64, died as u64)
    }

    fn is_lost(&self, (grant, number): ElementOf) -> bool {
        self.ended.get(&grant).is_some_and(|ended| number > ended.applied)
    }

    /// What is wrong with the ends of grants.
    pub fn judge(&self) -> Result<(), String> {
        if let Some(broken) = self.broken.first() {
            return Err(broken.clone());
        }
        for (grant, (who, last)) in &self.holders {
            let Some(ended) = self.ended.get(grant) else { continue };
            let told = |number: &u64| {
                let element = (*grant, *number);
                self.set_aside.contains(&element) || self.died.contains(&element)
            };
            if let Some(number) = (ended.applied + 1..=*last).find(|number| !told(number)) {
                return Err(format!(
                    "element {number} of {grant} is lost, and client {who} did not set it aside"
                ));
            }
            // Writers of objects make elements that no operation here has made.
            let is_of = |(of, number): &&ElementOf| of == grant && *number <= ended.applied;
            if let Some((_, number)) = self.set_aside.iter().find(is_of) {
                return Err(format!(
                    "element {number} of {grant} was set aside by client {who}, and is applied"
                ));
            }
        }
        Ok(())
    }

    /// A client answers a request of an operation under a grant that has so many elements by then.
    pub fn answers(&mut self, who: Who, (grant, number): ElementOf, op: &Op) {
        let holder = self.holders.entry(grant).or_insert((who, 0));
        holder.1 = holder.1.max(number);
        if let Some(Ended { at, .. }) = self.ended.get(&grant) {
            self.broken
                .push(format!("client {who} answered from {grant} after its end at {at}: {op:?}"));
        }
    }

    /// Grants of which something is lost, by when that was.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let loss = |(grant, ended): (&TxnId, &Ended)| {
            let last = self.holders.get(grant).map_or(0, |(_, last)| *last);
            let is_of_changes = last > ended.applied;
            let loss = Loss { grant: *grant, ended: *ended, is_of_changes };
            (ended.is_fenced || is_of_changes).then_some(loss)
        };
        let mut losses: Vec<_> = self.ended.iter().filter_map(loss).collect();
        losses.sort_by_key(|loss| loss.ended.at);
        losses
    }
}
