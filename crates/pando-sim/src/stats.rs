//! Counts of what happened in runs: a run that hits nothing proves nothing.

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

/// Counts of the live copies that splits and merges make.
#[derive(Clone, Copy, Default, Debug)]
pub struct Copies {
    /// Pages that targets have taken.
    pub pages: u64,
    /// Rounds of changes that were sent after the first copy.
    pub rounds: u64,
    /// Of those rounds, how many were sent while the moving half was frozen.
    pub rounds_frozen: u64,
    /// Changed rows that were sent in rounds.
    pub rows_again: u64,
    /// Changed rows that were sent in the final exchange.
    pub rows_frozen: u64,
    /// Moving halves that waited for transactions before they could freeze.
    pub awaiting: u64,
    /// Moving halves that were opened again, because those transactions took too long.
    pub reopened: u64,
    /// Moving halves that were closed, because they changed faster than they were sent.
    pub overtaken: u64,
    /// Splits given up because another operation wanted the partition.
    pub yielded: u64,
    /// Splits given up for any other reason.
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

/// Counts of merges of small partitions.
#[derive(Clone, Copy, Default, Debug)]
pub struct Merges {
    /// Partitions given back to a parent on their own shard.
    pub local: u64,
    /// Partitions given back to a parent on another shard.
    pub moved: u64,
    /// Entries that were sent with these partitions.
    pub entries: u64,
    /// Partitions that the parent's shard refused to take back.
    pub refused: u64,
    /// Merges given up because another operation wanted the partition.
    pub yielded: u64,
    /// Merges given up for any other reason.
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

/// Counts of one run, or of many runs.
#[derive(Clone, Default, Debug)]
pub struct Stats {
    /// Number of runs.
    pub runs: u64,
    /// Requests that reached each shard, by shard.
    pub requests: Vec<u64>,
    /// Peer messages sent.
    pub peers: u64,
    /// Requests that the calling thread ran at once.
    pub at_once: u64,
    /// Times that a shard ran while other threads had other shards of its process.
    pub beside: u64,
    /// Names with a fsynced state, and later looks at such names.
    pub promises: (u64, u64),
    /// Counts of programs' locks.
    pub locks: Counts,
    /// Counts of disk faults.
    pub disks: DiskCounts,
    /// Counts of clients in the shards' process.
    pub local: LocalCounts,
    /// Counts of objects.
    pub objects: ObjectCounts,
    /// Counts of shards that moved between processes.
    pub shards_moved: MoveCounts,
    /// Times that a machine's clock was set.
    pub clocks_set: u64,
    /// Syncs of logs.
    pub syncs: u64,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
    /// Shards that died between two steps of their checkpoint.
    pub checkpoint_crashes: u64,
    /// Shards that died, each with its process.
    pub crashes: u64,
    /// Of those, shards that died with the power of their machine.
    pub power_losses: u64,
    /// Processes that died with several shards.
    pub crashed_together: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Of those, connections with a reply on its way to a waiting client.
    pub broken_with_reply: u64,
    /// Of those, connections with a request on its way from a waiting client.
    pub broken_with_request: u64,
    /// Cuts in one direction.
    pub cuts_one_way: u64,
    /// Cuts in both directions.
    pub cuts_both_ways: u64,
    /// Running transactions, by kind, at shards that a cut in one direction separated from other
    /// shards.
    pub cut_in: BTreeMap<&'static str, u64>,
    /// Counts of what happened to bytes in the network.
    pub bytes: Bytes,
    /// Clients that died.
    pub client_deaths: u64,
    /// Times that a client stood still.
    pub pauses: u64,
    /// Sessions that ended with their lease.
    pub expired: u64,
    /// Changing requests refused because their session was over.
    pub refused_sessions: u64,
    /// Requests refused because their path had changed.
    pub stale_ways: u64,
    /// Rounds in which clients guessed ids; rounds repeated because a directory had split
    /// unnoticed.
    pub guesses: (u64, u64),
    /// Calls by path that were refused so often that the shards no longer judged their path.
    pub loose_walks: u64,
    /// Claims to move directories to another parent: all, those given while another claim stood,
    /// and those given alone. Last, walks of a moving directory that were repeated.
    pub moves: [u64; 4],
    /// Sessions that clients found to be over; operations that ended in `EIO`, with an unknown
    /// outcome.
    pub lost_sessions: (u64, u64),
    /// Opens lost with a session.
    pub lost_opens: u64,
    /// Requests given up by clients. Of those: requests later found not to have run, and to have
    /// run.
    pub doubts: (u64, u64, u64),
    /// Operations answered.
    pub operations: u64,
    /// How often the judge applied each excuse.
    pub excuses: Excuses,
    /// What shards were in the middle of when they died.
    pub crashed_in: BTreeMap<String, u64>,
    /// Transactions committed that had a participant on another shard, by kind.
    pub remote: BTreeMap<&'static str, u64>,
    /// Splits within a shard, and splits to another shard.
    pub splits: (u64, u64),
    /// Counts of live copies.
    pub copies: Copies,
    /// Counts of merges.
    pub merges: Merges,
    /// Hash slots handed over; handovers given up; decisions that were sent on, because their place
    /// had moved to another shard.
    pub handovers: (u64, u64, u64),
    /// Requests answered from a recorded outcome.
    pub repeated: u64,
    /// Requests answered with a redirect.
    pub redirected: u64,
    /// Inputs that waited for a lock.
    pub waited: u64,
    /// Transactions undone and begun again.
    pub restarts: u64,
    /// Faults that the check of the running cluster suspected, and then dropped as unfounded.
    pub suspicions: u64,
    /// Outcomes of operations, by kind and errno.
    pub outcomes: BTreeMap<String, u64>,
}

impl Stats {
    /// Empty counts of one run with `shards` shards.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        Self { runs: 1, requests: vec![0; shards.into()], ..Self::default() }
    }

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
        let (counters, ways) = (client.counters(), client.path_stats());
        self.guesses.0 += ways.rounds;
        self.guesses.1 += ways.repeats;
        self.lost_sessions.0 += counters.sessions_over();
        self.lost_opens += lost_opens;
        let [not_run, run] = counters.resolved();
        self.doubts.0 += counters.given_up();
        self.doubts.1 += not_run;
        self.doubts.2 += run;
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

    /// Adds the counts of a process that is about to end.
    pub fn absorb(&mut self, process: &Process) {
        self.checkpoints += process.checkpoints();
        self.absorb_core(process);
    }

    /// Adds the counts of a core that leaves, or has left, its process.
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

/// The operation's name, in lower case.
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
