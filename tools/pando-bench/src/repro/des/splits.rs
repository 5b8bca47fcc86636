//! Splits in the model: the steps and limits of `pando-core/src/split`.

use std::ops::Range;

use pando_placement::range;
use pando_types::{Order, PartitionIndex};

use super::Splitting;
use super::engine::{Event, Model};
use crate::repro::directory::Due;
use crate::repro::stats::half_of;

/// Moves from one server at the same time, at most.
const COPIES_MAX: u32 = 4;
/// Rounds of changes that are sent while the half is open, at most.
const ROUNDS_MAX: u32 = 8;
/// Unsent changes at which the half is closed.
const DIRTY_MAX: u64 = 4_096;

/// A split to another server that is in progress.
pub(super) struct Move {
    due: Due,
    /// The range of orders that moves.
    pub(super) orders: Range<u64>,
    /// Rows that were read, and rows that were not.
    read: u64,
    rest: u64,
    /// Changed rows that no round has taken up yet. `todo` are those that the present round has
    /// still to send.
    dirty: u64,
    todo: u64,
    rounds: u32,
    /// Rows that the last round had to send, or else the copy.
    round_size: u64,
    /// Rows of the page in transit.
    sent: u64,
    /// Time at which the half was closed.
    closed_at: Option<u64>,
    /// Processes whose requests wait.
    pub(super) waiting: Vec<u32>,
}

impl Move {
    pub(super) const fn is_closed(&self) -> bool {
        self.closed_at.is_some()
    }

    /// Number of entries that move.
    const fn entries(&self) -> u64 {
        self.read + self.rest
    }

    /// The order that the copy has reached.
    fn cursor(&self) -> u64 {
        let width = self.orders.end - self.orders.start;
        let share = self.read as f64 / self.entries().max(1) as f64;
        self.orders.start + (width as f64 * share) as u64
    }
}

impl Model<'_> {
    /// Handles the growth of a partition by a create that is finished at `now`.
    pub(super) fn grown(&mut self, partition: PartitionIndex, order: Order, now: u64) {
        if let Some(number) = self.leaving.get(&partition.0).copied() {
            let live = self.setup.splitting == Splitting::Live;
            let of = &mut self.moves[number as usize];
            if of.orders.contains(&order.0) {
                if of.rest > 0 && order.0 >= of.cursor() {
                    of.rest += 1;
                } else {
                    of.read += 1;
                    of.dirty += 1;
                }
                if live && of.dirty >= DIRTY_MAX && of.closed_at.is_none() {
                    of.closed_at = Some(now);
                }
            }
            return;
        }
        let Some(due) = self.directory.due(partition) else { return };
        let entries = self.directory.entries(partition);
        if due.source == due.target {
            let moving = half_of(entries, &mut self.rng);
            let finish = self.occupy(due.source, now, moving * self.setup.costs.split_here_entry);
            self.directory.split(&due, moving);
            self.directory.own(&due);
            self.last_split = self.last_split.max(finish);
            return;
        }
        let copies = &mut self.copies[usize::from(due.source.0)];
        if *copies >= COPIES_MAX {
            // The next create checks again.
            return;
        }
        *copies += 1;
        let number = self.moves.len() as u32;
        let closed_at = (self.setup.splitting == Splitting::Locked).then_some(now);
        self.moves.push(Move {
            due,
            orders: range(due.to, due.radix),
            read: 0,
            rest: half_of(entries, &mut self.rng),
            dirty: 0,
            todo: 0,
            rounds: 0,
            round_size: 0,
            sent: 0,
            closed_at,
            waiting: Vec::new(),
        });
        self.leaving.insert(partition.0, number);
        self.at(now, Event::Step(number));
    }

    /// The source sends the next page or the exchange.
    pub(super) fn step(&mut self, number: u32, now: u64) {
        let costs = &self.setup.costs;
        let of = &mut self.moves[number as usize];
        let source = of.due.source;
        let full = costs.page_rows.max(1);
        if of.rest > 0 {
            of.sent = of.rest.min(full);
            of.rest -= of.sent;
            of.read += of.sent;
            of.round_size += of.sent;
        } else {
            let is_gaining =
                of.rounds == 0 || of.rounds < ROUNDS_MAX && of.dirty <= of.round_size / 4 * 3;
            if of.todo == 0 && of.dirty > full && (of.is_closed() || is_gaining) {
                (of.round_size, of.todo, of.dirty) = (of.dirty, of.dirty, 0);
                of.rounds += 1;
            }
            if of.todo == 0 {
                of.sent = std::mem::take(&mut of.dirty);
                of.closed_at.get_or_insert(now);
                let cost = costs.close + costs.page(costs.page_read, of.sent);
                let finish = self.occupy(source, now, cost);
                return self.at(finish + costs.hop, Event::Arrive(number));
            }
            of.sent = of.todo.min(full);
            of.todo -= of.sent;
        }
        let cost = costs.page(costs.page_read, of.sent);
        let finish = self.occupy(source, now, cost);
        self.at(finish + costs.hop, Event::Page(number));
    }

    /// The target stores a page and acknowledges it.
    pub(super) fn page(&mut self, number: u32, now: u64) {
        let costs = &self.setup.costs;
        let of = &self.moves[number as usize];
        let cost = costs.page(costs.page_take, of.sent);
        let finish = self.occupy(of.due.target, now, cost);
        self.at(finish + costs.hop, Event::Step(number));
    }

    /// The target takes the exchange, syncs and votes.
    pub(super) fn arrive(&mut self, number: u32, now: u64) {
        let costs = &self.setup.costs;
        let of = &self.moves[number as usize];
        let cost = costs.arrive + costs.page(costs.page_take, of.sent);
        let finish = self.occupy(of.due.target, now, cost);
        self.at(finish + costs.sync + costs.hop, Event::Voted(number));
    }

    /// The source decides. Waiting requests are judged again, and redirected. The target learns of
    /// the decision once it is synced.
    pub(super) fn voted(&mut self, number: u32, now: u64) {
        let costs = &self.setup.costs;
        let due = self.moves[number as usize].due;
        let finish = self.occupy(due.source, now, costs.decide);
        let of = &mut self.moves[number as usize];
        let moving = of.entries();
        let waiting = std::mem::take(&mut of.waiting);
        self.leaving.remove(&due.from.0);
        self.arriving.insert(due.to.0, number);
        self.directory.split(&due, moving);
        for process in waiting {
            self.at(finish, Event::Request(process));
        }
        self.at(finish + costs.sync + costs.hop, Event::Own(number));
    }

    /// The target owns the partition, and serves the requests that waited there.
    pub(super) fn own(&mut self, number: u32, now: u64) {
        let due = self.moves[number as usize].due;
        let finish = self.occupy(due.target, now, self.setup.costs.own);
        self.arriving.remove(&due.to.0);
        self.directory.own(&due);
        self.copies[usize::from(due.source.0)] -= 1;
        self.last_split = self.last_split.max(finish);
        let of = &mut self.moves[number as usize];
        let closed = finish - of.closed_at.unwrap_or(finish);
        self.closed_longest = self.closed_longest.max(closed);
        for process in std::mem::take(&mut of.waiting) {
            self.at(finish, Event::Request(process));
        }
    }
}
