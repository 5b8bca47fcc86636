//! How often what happened: a run that hits nothing proves nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use pando_core::keys::{self, Table};
use pando_core::record::{Decided, Prepared, Record};
use pando_core::{Counters, Rows, TxnKind};
use pando_model::Op;
use pando_types::Errno;
use pando_types::peer::{Claim, Prepare};

use crate::check::{Excuses, History};
use crate::cuts::Cut;
use crate::disks::DiskCounts;
use crate::host::{Host, Process};
use crate::local::LocalCounts;
use crate::locking::counts::Counts;
use crate::moves::MoveCounts;
use crate::network::Bytes;
use crate::objects::counts::ObjectCounts;

/// What came of the live copies of what splits and merges.
#[derive(Clone, Copy, Default, Debug)]
pub struct Copies {
    /// Pages taken by targets.
    pub pages: u64,
    /// Rounds of changes.
    pub rounds: u64,
    /// Of those, in a frozen half.
    pub rounds_frozen: u64,
    /// Changes sent in rounds.
    pub rows_again: u64,
    /// Changes sent in the exchange.
    pub rows_frozen: u64,
    /// Halves that waited for transactions.
    pub awaiting: u64,
    /// Halves opened again.
    pub reopened: u64,
    /// Halves that changed faster than they were sent.
    pub overtaken: u64,
    /// Given up for somebody else.
    pub yielded: u64,
    /// Given up.
    pub failed: u64,
}

impl AddAssign for Copies {
    fn add_assign(&mut self, other: Self) {
        self.pages += other.pages;
        self.rounds += other.rounds;
        self.rounds_frozen += other.rounds_frozen;
        self.rows_again += other.rows_again;
        self.rows_frozen += other.rows_frozen;
        self.awaiting += other.awaiting;
        self.reopened += other.reopened;
        self.overtaken += other.overtaken;
        self.yielded += other.yielded;
        self.failed += other.failed;
    }
}

impl Copies {
    const fn of(counters: &Counters) -> Self {
        Self {
            pages: counters.split_pages,
            rounds: counters.split_rounds,
            rounds_frozen: counters.split_rounds_frozen,
            rows_again: counters.split_rows_again,
            rows_frozen: counters.split_rows_frozen,
            awaiting: counters.splits_awaiting,
            reopened: counters.splits_reopened,
            overtaken: counters.splits_overtaken,
            yielded: counters.splits_yielded,
            failed: counters.splits_failed,
        }
    }
}

/// What came of partitions that became small.
#[derive(Clone, Copy, Default, Debug)]
pub struct Merges {
    /// Given back to a parent on the same shard.
    pub local: u64,
    /// Given back to a parent on another shard.
    pub moved: u64,
    /// Names that went along.
    pub entries: u64,
    /// Not taken back.
    pub refused: u64,
    /// Given up for somebody else.
    pub yielded: u64,
    /// Given up.
    pub failed: u64,
}

impl AddAssign for Merges {
    fn add_assign(&mut self, other: Self) {
        self.local += other.local;
        self.moved += other.moved;
        self.entries += other.entries;
        self.refused += other.refused;
        self.yielded += other.yielded;
        self.failed += other.failed;
    }
}

impl Merges {
    const fn of(counters: &Counters) -> Self {
        Self {
            local: counters.merges_local,
            moved: counters.merges_moved,
            entries: counters.entries_given_back,
            refused: counters.merges_refused,
            yielded: counters.merges_yielded,
            failed: counters.merges_failed,
        }
    }
}

/// Counts of one run, or of many.
#[derive(Clone, Default, Debug)]
pub struct Stats {
    /// Runs.
    pub runs: u64,
    /// Requests that reached each shard.
    pub requests: Vec<u64>,
    /// Messages between shards.
    pub peers: u64,
    /// Requests run at once by whoever had them.
    pub at_once: u64,
    /// Times that a shard was run while other threads had others of its process.
    pub beside: u64,
    /// Names whose state was fsynced, and times that somebody looked at one.
    pub promises: (u64, u64),
    /// What became of locks of programs.
    pub locks: Counts,
    /// What became of disks.
    pub disks: DiskCounts,
    /// What became of clients in the shards' process.
    pub local: LocalCounts,
    /// What became of objects.
    pub objects: ObjectCounts,
    /// What became of shards that moved.
    pub shards_moved: MoveCounts,
    /// Clocks that were set.
    pub clocks_set: u64,
    /// Syncs of logs.
    pub syncs: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Processes that died between the steps of a checkpoint, or of its disk in one.
    pub checkpoint_crashes: u64,
    /// Processes that died.
    pub crashes: u64,
    /// Of those, with the machine's power.
    pub power_losses: u64,
    /// Processes that died with several shards.
    pub crashed_together: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Of those, with a reply on its way to somebody who waits.
    pub broken_with_reply: u64,
    /// Of those, with a request on its way.
    pub broken_with_request: u64,
    /// Cuts one way.
    pub cuts_one_way: u64,
    /// Cuts both ways.
    pub cuts_both_ways: u64,
    /// Transactions under way, by kind, at a shard that others ceased to hear, or that ceased to
    /// hear others, one way.
    pub cut_in: BTreeMap<&'static str, u64>,
    /// What happened to bytes.
    pub bytes: Bytes,
    /// Clients that died.
    pub client_deaths: u64,
    /// Clients that stood still.
    pub pauses: u64,
    /// Sessions whose lease ended.
    pub expired: u64,
    /// Changing requests refused because their session was over.
    pub refused_sessions: u64,
    /// Requests refused because the way by which they came had changed.
    pub stale_ways: u64,
    /// Rounds in which clients guessed ids, and those in which they asked once more, as directories
    /// had split unnoticed.
    pub guesses: (u64, u64),
    /// Calls by path that were refused so often that their way was not judged any more.
    pub loose_walks: u64,
    /// Moves of directories to other parents: all, beside another, alone; and walks for them that
    /// were done anew.
    pub moves: [u64; 4],
    /// Sessions that clients heard were over, and in which they had changing requests of unknown
    /// outcome.
    pub lost_sessions: (u64, u64),
    /// Opens lost with a session.
    pub lost_opens: u64,
    /// Requests given up by clients; of those, known later not to have run, and to have run.
    pub doubts: (u64, u64, u64),
    /// Operations answered.
    pub operations: u64,
    /// What the judge forgave.
    pub excuses: Excuses,
    /// What a shard was in the middle of when it died.
    pub crashed_in: BTreeMap<String, u64>,
    /// Transactions committed that had a participant on another shard, by kind.
    pub remote: BTreeMap<&'static str, u64>,
    /// Splits within a shard, and to another.
    pub splits: (u64, u64),
    /// What came of live copies.
    pub copies: Copies,
    /// What came of small partitions.
    pub merges: Merges,
    /// Slots handed over; handovers given up; decisions whose place had gone elsewhere.
    pub handovers: (u64, u64, u64),
    /// Requests answered from a recorded outcome.
    pub repeated: u64,
    /// Requests sent elsewhere.
    pub redirected: u64,
    /// Inputs that waited for a lock.
    pub waited: u64,
    /// Transactions undone and begun again.
    pub restarts: u64,
    /// Faults that a check of the running cluster suspected and gave up: it was wrong, and found
    /// so.
    pub suspicions: u64,
    /// Outcomes of operations, by kind and errno.
    pub outcomes: BTreeMap<String, u64>,
}

impl Stats {
    /// Of one run with so many shards.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        Self { runs: 1, requests: vec![0; shards.into()], ..Self::default() }
    }

    /// A process dies: notes what it was in the middle of.
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
        self.absorb(process);
        let phases = ["copying", "sending changes", "closing", "frozen"];
        for (phase, alive) in phases.iter().zip(process.core().copies_alive()) {
            (0..alive).for_each(|_| self.note(phase));
        }
        for table in [Table::Txn, Table::Prepared, Table::Arrival, Table::Incoming] {
            let prefix = keys::table(table);
            process.look(|store| {
                // What a disk that has stopped does not tell is not counted.
                let _ = store.scan(&prefix, &keys::after(&prefix), &mut |_, value| {
                    self.note(&what(table, value));
                    true
                });
            });
        }
    }

    /// Adds what a client did.
    pub fn client(&mut self, client: &pando_client::Client, lost_opens: u64) {
        let (counters, ways) = (client.counters(), client.ways());
        self.guesses.0 += ways.rounds;
        self.guesses.1 += ways.repeats;
        self.lost_sessions.0 += counters.sessions_over();
        self.lost_opens += lost_opens;
        let [not_run, run] = counters.resolved();
        self.doubts.0 += counters.given_up();
        self.doubts.1 += not_run;
        self.doubts.2 += run;
    }

    /// Some cease to reach others: notes what they were in the middle of.
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

    /// Adds what clients did.
    pub fn count(&mut self, history: &History) {
        for event in history.events() {
            self.lost_sessions.1 += u64::from(event.lost == Some(Errno::EIO));
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

    /// Adds what a process that is about to end has counted.
    pub fn absorb(&mut self, process: &Process) {
        self.checkpoints += process.checkpoints();
        self.absorb_core(process);
    }

    /// Adds what a core has counted whose process it has left, or is about to.
    pub(crate) fn absorb_core(&mut self, process: &Process) {
        let core = process.core();
        let counters = core.counters();
        for (kind, count) in TxnKind::ALL.iter().zip(counters.txns_remote) {
            *self.remote.entry(kind.name()).or_default() += count;
        }
        self.splits.0 += counters.splits_local;
        self.splits.1 += counters.splits_moved;
        self.copies += Copies::of(counters);
        self.merges += Merges::of(counters);
        self.handovers.0 += counters.handovers;
        self.handovers.1 += counters.handovers_failed;
        self.handovers.2 += counters.readdressed;
        self.repeated += counters.repeated;
        self.expired += counters.sessions_expired;
        self.redirected += counters.redirected;
        self.waited += counters.waited;
        self.restarts += counters.restarts;
        let Counters { claims, claims_together, claims_alone, walks_overtaken, .. } = *counters;
        self.count_moves([claims, claims_together, claims_alone, walks_overtaken]);
    }

    fn count_moves(&mut self, more: [u64; 4]) {
        self.moves.iter_mut().zip(more).for_each(|(count, more)| *count += more);
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
                    Prepare::TakeSlot(_) => "take slot",
                    Prepare::Join => "join",
                };
                format!("prepared {step}")
            },
        ),
        Table::Incoming => "slot arriving".into(),
        _ => "arriving".into(),
    }
}

impl AddAssign<&Self> for Stats {
    fn add_assign(&mut self, other: &Self) {
        self.runs += other.runs;
        self.requests.resize(self.requests.len().max(other.requests.len()), 0);
        for (mine, theirs) in self.requests.iter_mut().zip(&other.requests) {
            *mine += theirs;
        }
        self.peers += other.peers;
        self.at_once += other.at_once;
        self.beside += other.beside;
        self.promises.0 += other.promises.0;
        self.promises.1 += other.promises.1;
        self.clocks_set += other.clocks_set;
        self.locks += other.locks;
        self.disks += other.disks;
        self.objects += other.objects;
        self.local += other.local;
        self.shards_moved += &other.shards_moved;
        self.syncs += other.syncs;
        self.checkpoints += other.checkpoints;
        self.checkpoint_crashes += other.checkpoint_crashes;
        self.crashes += other.crashes;
        self.power_losses += other.power_losses;
        self.client_deaths += other.client_deaths;
        self.crashed_together += other.crashed_together;
        self.broken += other.broken;
        self.broken_with_reply += other.broken_with_reply;
        self.broken_with_request += other.broken_with_request;
        self.cuts_one_way += other.cuts_one_way;
        self.cuts_both_ways += other.cuts_both_ways;
        self.bytes += other.bytes;
        self.pauses += other.pauses;
        self.expired += other.expired;
        self.refused_sessions += other.refused_sessions;
        self.stale_ways += other.stale_ways;
        self.guesses.0 += other.guesses.0;
        self.guesses.1 += other.guesses.1;
        self.loose_walks += other.loose_walks;
        self.count_moves(other.moves);
        self.lost_sessions.0 += other.lost_sessions.0;
        self.lost_sessions.1 += other.lost_sessions.1;
        self.lost_opens += other.lost_opens;
        self.doubts.0 += other.doubts.0;
        self.doubts.1 += other.doubts.1;
        self.doubts.2 += other.doubts.2;
        add(&mut self.cut_in, &other.cut_in);
        self.operations += other.operations;
        add(&mut self.excuses, &other.excuses);
        self.splits.0 += other.splits.0;
        self.splits.1 += other.splits.1;
        self.copies += other.copies;
        self.merges += other.merges;
        self.handovers.0 += other.handovers.0;
        self.handovers.1 += other.handovers.1;
        self.handovers.2 += other.handovers.2;
        self.repeated += other.repeated;
        self.redirected += other.redirected;
        self.waited += other.waited;
        self.restarts += other.restarts;
        self.suspicions += other.suspicions;
        add(&mut self.crashed_in, &other.crashed_in);
        add(&mut self.remote, &other.remote);
        add(&mut self.outcomes, &other.outcomes);
    }
}

/// The operation's name.
fn kind(op: &Op) -> String {
    if let Op::ByPath { op, .. } = op {
        return format!("{} by path", kind(op));
    }
    let shown = format!("{op:?}");
    shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase()
}

fn add<K: Ord + Clone>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *to.entry(key.clone()).or_default() += count;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}
