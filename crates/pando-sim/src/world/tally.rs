//! Counts what happened to shards, clients and operations.

use pando_core::keys::Table;
use pando_core::record::{Decided, Prepared, Record as _};
use pando_core::{Rows as _, TxnKind, keys};
use pando_types::Errno;
use pando_types::peer::{Claim, Prepare};

use crate::check::History;
use crate::counts::Count as _;
use crate::counts::copies::{Copies, Merges};
use crate::counts::parts::{Claims, Doubts, Handovers, Loans, Splits};
use crate::counts::stats::Stats;
use crate::machines::host::{Host, Process};
use crate::model::Op;
use crate::network::cuts::Cut;

impl Stats {
    /// Counts the death of a shard with its process, and what the shard was in the middle of.
    pub fn crash(&mut self, host: &Host, power: bool) {
        self.crashes += 1;
        self.power_losses += u64::from(power);
        let Some(process) = &host.process else {
            self.note("starting");
            return;
        };
        if process.is_checkpointing() {
            self.checkpoint_crashes += 1;
        }
        self.parked_at_death += process.parked();
        self.absorb(process);
        let phases = ["copying", "sending changes", "closing", "frozen"];
        for (phase, alive) in phases.iter().zip(process.core().copies_alive()) {
            (0..alive).for_each(|_| self.note(phase));
        }
        for table in [Table::Txn, Table::Prepared, Table::Arrival, Table::Incoming] {
            let prefix = keys::table(table);
            process.look(|store| {
                // A disk that has stopped cannot be read. What it holds is not counted.
                let _ = store.scan(&prefix, &keys::after(&prefix), &mut |_, value| {
                    self.note(&what(table, value));
                    true
                });
            });
        }
    }

    /// Adds the counts of one client.
    pub fn client(&mut self, client: &pando_client::Client, lost_opens: u64) {
        let (counters, paths) = (client.counters(), client.path_stats());
        self.guesses.rounds += paths.rounds;
        self.guesses.repeats += paths.repeats;
        self.lost_sessions.over += counters.sessions_over();
        self.lost_opens += lost_opens;
        let [not_run, run] = counters.resolved();
        self.doubts.add(&Doubts { given_up: counters.given_up(), not_run, run });
    }

    /// Counts a cut, and the transactions that run at the shards it separates.
    pub fn cut(&mut self, cut: &Cut, hosts: &[Host]) {
        if cut.is_both_ways {
            self.cuts_both_ways += 1;
            return;
        }
        self.cuts_one_way += 1;
        for (shard, host) in hosts.iter().enumerate() {
            let Some(process) = &host.process else { continue };
            if cut.is_among_shards() && cut.concerns(shard) {
                for (kind, alive) in TxnKind::ALL.iter().zip(process.core().txns_alive()) {
                    *self.cut_in.entry(kind.name()).or_default() += alive;
                }
            }
        }
    }

    /// Adds the outcomes of all operations of a history.
    pub fn count(&mut self, history: &History) {
        for event in history.events() {
            self.lost_sessions.unsure += u64::from(event.lost == Some(Errno::EIO));
            self.loose_walks += u64::from(event.walked.is_loose == Some(true));
            let Some((_, outcome)) = &event.returned else {
                let why = event.lost.map_or("?", |errno| errno.symbol());
                *self.outcomes.entry(format!("{} {why}", kind(&event.call.op))).or_default() += 1;
                continue;
            };
            self.operations += 1;
            let how = outcome.as_ref().err().map_or("ok", |errno| errno.symbol());
            *self.outcomes.entry(format!("{} {how}", kind(&event.call.op))).or_default() += 1;
        }
    }

    /// Adds the counts of a process that is about to end.
    pub fn absorb(&mut self, process: &Process) {
        self.checkpoints += process.checkpoints();
        let [slowed, stopped] = process.braked();
        (self.slowed, self.stopped) = (self.slowed + slowed, self.stopped + stopped);
        self.absorb_core(process);
    }

    /// Adds the counts of a core that leaves, or has left, its process.
    pub(crate) fn absorb_core(&mut self, process: &Process) {
        let core = process.core();
        let counters = core.counters();
        for (kind, count) in TxnKind::ALL.iter().zip(counters.txns_remote) {
            *self.remote.entry(kind.name()).or_default() += count;
        }
        self.splits.add(&Splits::of(counters));
        self.loans.add(&Loans::of(counters));
        self.copies.add(&Copies::of(counters));
        self.merges.add(&Merges::of(counters));
        self.handovers.add(&Handovers::of(counters));
        self.claims.add(&Claims::of(counters));
        self.repeated += counters.repeated;
        self.expired += counters.sessions_expired;
        self.redirected += counters.redirected;
        self.waited += counters.waited;
        self.restarts += counters.restarts;
    }

    fn note(&mut self, what: &str) {
        *self.crashed_in.entry(what.to_owned()).or_default() += 1;
    }
}

fn what(table: Table, value: &[u8]) -> String {
    match table {
        Table::Txn => {
            Decided::decode(value).map_or_else(|_| "?".into(), |d| format!("decided {}", d.what))
        }
        Table::Prepared => Prepared::decode(value).map_or_else(
            |_| "?".into(),
            |prepared| {
                let step = match prepared.prepare {
                    Prepare::Graph(Claim::Move { .. }) => "graph",
                    Prepare::Graph(Claim::Alone) => "graph alone",
                    Prepare::Name { .. } => "name",
                    Prepare::Home(_) => "home",
                    Prepare::Removal(_) => "removal",
                    Prepare::Look(_) => "look",
                    Prepare::LookFile { .. } => "look at file",
                    Prepare::Invalidate { .. } => "invalidate",
                    Prepare::NewHome(_) => "new home",
                    Prepare::Partition { seal: true, .. } => "seal",
                    Prepare::Partition { seal: false, .. } => "partition",
                    Prepare::Link { new: true, .. } => "new link",
                    Prepare::Link { new: false, .. } => "link",
                    Prepare::Arrive(arrival) if arrival.given_back => "merge",
                    Prepare::Arrive(_) => "arrive",
                    Prepare::TakeHashSlot(_) => "take slot",
                    Prepare::Join => "join",
                };
                format!("prepared {step}")
            },
        ),
        Table::Incoming => "slot arriving".into(),
        _ => "arriving".into(),
    }
}

/// The operation's name, in lower case.
fn kind(op: &Op) -> String {
    if let Op::ByPath { op, .. } = op {
        return format!("{} by path", kind(op));
    }
    let shown = format!("{op:?}");
    shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase()
}
