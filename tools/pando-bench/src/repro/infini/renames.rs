//! Figure 14: the phases of renames, by number of shards.
//!
//! Phases are measured at the relay, from the times at which messages leave and arrive. One rename
//! runs at a time, with no other requests. The coordinator's own phase is the rest: handling, log
//! writes and fsyncs there, and its own steps as a participant, which send no message.
//!
//! ```text
//!  client            coordinator            other shards                     shard 0 ── all
//!    │ resolves paths    │                       │
//!    │── Rename ────────►│── Prepare: graph, up ─►│  checking for loops
//!    │                   │── Prepare: names ─────►│  locking names
//!    │                   │── Prepare: contents ──►│  locking contents, link inodes
//!    │                   │── Prepare: version ───────────────────────────────► informed, all confirm
//!    │◄── reply ─────────│  decides
//! ```

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use pando_client::Client;
use pando_types::TxnId;
use pando_types::op::{Op, RenameFlags};
use pando_types::peer::{PeerMessage, Prepare};
use pando_wire::{Decoder, Message};
use serde::Serialize;
use serde_json::json;

use super::load::Load;
use super::spy::Once;
use super::stage::{close, make_dirs, make_file, paths};
use super::{How, Stage, failed, millis};
use crate::BenchError;
use crate::library::beside_maintenance;
use crate::relay::Seen;
use crate::repro::figure::{Axis, Chart, Figure, Nature, Series, Table, whole};

/// Kinds of renames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file within its directory. One shard takes part.
    FileHere,
    /// A file to another directory.
    FileAway,
    /// A directory within its parent. No loop can arise.
    DirHere,
    /// A directory to another parent.
    DirAway,
}

impl Kind {
    /// All kinds, from the simplest.
    pub const ALL: [Self; 4] = [Self::FileHere, Self::FileAway, Self::DirHere, Self::DirAway];

    /// Name of the kind in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileHere => "file, same directory",
            Self::FileAway => "file, other directory",
            Self::DirHere => "directory, same parent",
            Self::DirAway => "directory, other parent",
        }
    }

    const fn is_dir(self) -> bool {
        matches!(self, Self::DirHere | Self::DirAway)
    }

    const fn is_away(self) -> bool {
        matches!(self, Self::FileAway | Self::DirAway)
    }
}

/// Mean time of each phase, in microseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Phases {
    /// To resolve source and target, if the client remembers no path.
    pub resolve: f64,
    /// The request and the reply on the network.
    pub on_the_way: f64,
    /// Checking for loops: to lock the renaming graph and to walk up from the new parent.
    pub loops: f64,
    /// Locking names on other shards.
    pub names: f64,
    /// Locking contents and link inodes on other shards.
    pub contents: f64,
    /// Assigning the name version and sending it to all shards.
    pub broadcast: f64,
    /// The coordinator's own work.
    pub own: f64,
}

impl Phases {
    /// The sum of all phases.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.list().iter().map(|(_, micros)| micros).sum()
    }

    /// Each phase with its name.
    #[must_use]
    pub const fn list(&self) -> [(&'static str, f64); 7] {
        [
            ("finding the ways", self.resolve),
            ("to the coordinator and back", self.on_the_way),
            ("checking for loops", self.loops),
            ("locking names", self.names),
            ("locking contents", self.contents),
            ("broadcast", self.broadcast),
            ("the coordinator's own", self.own),
        ]
    }

    fn mean(all: &[Self]) -> Self {
        let of =
            |what: fn(&Self) -> f64| all.iter().map(what).sum::<f64>() / all.len().max(1) as f64;
        Self {
            resolve: of(|phases| phases.resolve),
            on_the_way: of(|phases| phases.on_the_way),
            loops: of(|phases| phases.loops),
            names: of(|phases| phases.names),
            contents: of(|phases| phases.contents),
            broadcast: of(|phases| phases.broadcast),
            own: of(|phases| phases.own),
        }
    }
}

/// The result for one kind with one number of shards.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Renames {
    /// Number of shards. Each is a process of its own.
    pub shards: u16,
    /// The kind of rename.
    pub kind: Kind,
    /// Phases of single renames.
    pub phases: Phases,
    /// Renames a second by many callers.
    pub per_second: f64,
}

/// Measures all kinds on one stage.
pub async fn run(stage: &Stage<'_>, callers: u32) -> Result<Vec<Renames>, BenchError> {
    let (count, millis) = stage.pick([(60, 3_000), (12, 500), (2, 30)]);
    let mut all = Vec::new();
    stage.watch.begin("figure 14", Kind::ALL.len() as u64);
    for kind in Kind::ALL {
        stage.go_on()?;
        let phases = alone(stage, kind, count).await?;
        let per_second = crowd(stage, kind, callers, Duration::from_millis(millis)).await?;
        all.push(Renames { shards: stage.shards(), kind, phases, per_second });
        stage.watch.advance(all.len() as u64);
    }
    stage.watch.end();
    Ok(all)
}

/// Source and target of a caller's renames. Odd renames go back from `to` to `from`.
struct Places {
    kind: Kind,
    from: String,
    to: String,
}

impl Places {
    async fn make(client: &Client, kind: Kind, owner: &str) -> Result<Self, BenchError> {
        let top = format!("/figure-14-{kind:?}/{owner}");
        let paths = paths(client);
        let (from, to) = match kind.is_away() {
            true => (format!("{top}/from"), format!("{top}/to")),
            false => (format!("{top}/here"), format!("{top}/here")),
        };
        make_dirs(&paths, &from).await?;
        make_dirs(&paths, &to).await?;
        let (from, to) = (format!("{from}/a"), format!("{to}/b"));
        match kind.is_dir() {
            true => make_dirs(&paths, &from).await?,
            false => drop(make_file(&paths, &from).await?),
        }
        Ok(Self { kind, from, to })
    }

    async fn rename(&self, client: &Client, nth: u64) -> Result<(), BenchError> {
        let (from, to) = match nth % 2 {
            0 => (&self.from, &self.to),
            _ => (&self.to, &self.from),
        };
        let (from, to) = (from.as_bytes(), to.as_bytes());
        let renamed = paths(client).rename(from, to, RenameFlags::default()).await;
        renamed.map_err(failed(self.kind.name(), from))
    }
}

/// Measures single renames. Each uses directories of its own, so that other shards take part each
/// time.
async fn alone(stage: &Stage<'_>, kind: Kind, count: u32) -> Result<Phases, BenchError> {
    let (client, spy) = stage.spied(How::Speculative).await?;
    let clients = [stage.client(How::Cached).await?, client];
    let [maker, client] = &clients;
    let mut all = Vec::new();
    let measuring = async {
        for nth in 0..count {
            let places = Places::make(maker, kind, &format!("alone{nth}")).await?;
            stage.quiet().await;
            let seen = stage.relay.watch();
            let once = spy.once(places.rename(client, 0)).await?;
            stage.quiet().await;
            all.push(phases(kind, &once, &events(&seen)));
        }
        Ok::<_, BenchError>(())
    };
    beside_maintenance(&clients, measuring).await?;
    close(&clients).await?;
    Ok(Phases::mean(&all))
}

async fn crowd(
    stage: &Stage<'_>,
    kind: Kind,
    callers: u32,
    time: Duration,
) -> Result<f64, BenchError> {
    let clients = stage.clients(callers, |_| How::Cached.options()).await?;
    let mut places = Vec::new();
    let making = clients.iter().enumerate().map(|(nth, client)| async move {
        Places::make(client, kind, &format!("crowd{nth}")).await
    });
    for made in futures_util::future::join_all(making).await {
        places.push(made?);
    }
    let load = Load::begin(stage.watch, time);
    let calling = clients
        .iter()
        .zip(&places)
        .map(|(client, places)| load.caller(async move |nth| places.rename(client, nth).await));
    let done = beside_maintenance(&clients, load.run(calling)).await?;
    close(&clients).await?;
    Ok(done.per_second)
}

/// A message on the network.
#[derive(Debug)]
struct Event {
    left: Instant,
    arrived: Instant,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A rename's request, with the numbers of its connection and its stream.
    Request(u64, u64),
    Reply(u64, u64),
    Prepare(TxnId, u16, Part),
    Voted(TxnId, u16),
    Versions,
    Known,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Loops,
    Names,
    Contents,
    Broadcast,
}

/// All messages that the relay has seen, in the order of leaving.
fn events(seen: &Receiver<Seen>) -> Vec<Event> {
    let mut decoders: HashMap<(u64, bool), Decoder> = HashMap::new();
    let mut events = Vec::new();
    while let Ok(seen) = seen.try_recv() {
        let decoder = decoders.entry((seen.connection, seen.is_in)).or_default();
        decoder.feed(&seen.bytes);
        while let Ok(Some((stream, message))) = decoder.message() {
            if let Some(what) = what(seen.connection, stream.0, message) {
                events.push(Event { left: seen.came, arrived: seen.left, what });
            }
        }
    }
    events.sort_by_key(|event| event.left);
    events
}

fn what(connection: u64, stream: u64, message: Message) -> Option<What> {
    Some(match message {
        Message::Request(request) if matches!(request.op, Op::Rename { .. }) => {
            What::Request(connection, stream)
        }
        Message::Reply(_) => What::Reply(connection, stream),
        Message::Peer(peer) => match peer.message {
            PeerMessage::Prepare(_, prepare) => What::Prepare(peer.txn, peer.step, part(&prepare)?),
            PeerMessage::Voted(_) => What::Voted(peer.txn, peer.step),
            PeerMessage::Versions { .. } => What::Versions,
            PeerMessage::VersionsKnown(_) => What::Known,
            _ => return None,
        },
        _ => return None,
    })
}

const fn part(prepare: &Prepare) -> Option<Part> {
    Some(match prepare {
        Prepare::Graph(_) | Prepare::Look(_) => Part::Loops,
        Prepare::Name { .. } => Part::Names,
        Prepare::Home(_)
        | Prepare::Removal(_)
        | Prepare::NewHome(_)
        | Prepare::LookFile { .. }
        | Prepare::Partition { .. }
        | Prepare::Link { .. } => Part::Contents,
        Prepare::Invalidate { .. } => Part::Broadcast,
        Prepare::Arrive(_) | Prepare::TakeHashSlot(_) | Prepare::Join => {
            return None;
        }
    })
}

/// Divides the time of one rename into phases. The steps of a transaction follow one another, so
/// their times add up.
fn phases(kind: Kind, once: &Once, events: &[Event]) -> Phases {
    let micros =
        |from: Instant, to: Instant| to.saturating_duration_since(from).as_nanos() as f64 / 1e3;
    let mut phases = Phases { resolve: once.resolution, ..Phases::default() };
    let within = events.iter().filter(|it| it.left >= once.begun && it.left <= once.ended);
    let mut asked: HashMap<(TxnId, u16), (Instant, Part)> = HashMap::new();
    let mut answered = Vec::new();
    let mut request = None;
    let (mut told, mut known) = (None, None);
    for Event { left, arrived, what } in within {
        match what {
            What::Request(connection, stream) => {
                request = Some((*connection, *stream));
                phases.on_the_way += micros(*left, *arrived);
            }
            What::Reply(connection, stream) if request == Some((*connection, *stream)) => {
                phases.on_the_way += micros(*left, *arrived);
            }
            What::Prepare(txn, step, part) => {
                asked.entry((*txn, *step)).or_insert((*left, *part));
            }
            What::Voted(txn, step) => {
                if let Some((sent, part)) = asked.remove(&(*txn, *step)) {
                    answered.push((part, micros(sent, *arrived)));
                }
            }
            What::Versions => told = told.or(Some(*left)),
            What::Known => known = known.max(Some(*arrived)),
            What::Reply(..) => {}
        }
    }
    for (part, time) in answered {
        *match part {
            Part::Loops => &mut phases.loops,
            Part::Names => &mut phases.names,
            Part::Contents => &mut phases.contents,
            Part::Broadcast => &mut phases.broadcast,
        } += time;
    }
    // If shard 0 is the coordinator, it informs the other shards itself, and no `Prepare` asks it
    // to.
    if let (true, Some(told), Some(known)) = (kind.is_dir() && phases.broadcast == 0.0, told, known)
    {
        phases.broadcast = micros(told, known);
    }
    phases.own = (once.total - phases.total()).max(0.0);
    phases
}

/// The results as a figure with tables.
#[must_use]
pub fn figure(all: &[Renames], round_trip: f64, callers: u32) -> Figure {
    let mut shards: Vec<u16> = all.iter().map(|renames| renames.shards).collect();
    shards.dedup();
    let at = |shards: u16, kind: Kind| {
        all.iter().find(|renames| (renames.shards, renames.kind) == (shards, kind))
    };
    let mut tables = Vec::new();
    for kind in Kind::ALL {
        let mut table = Table {
            caption: format!(
                "{}: milliseconds, one at a time, by shards (a process each); {} ms added to each round trip",
                kind.name(),
                millis(round_trip)
            ),
            rows: vec![
                ["phase".to_owned()].into_iter().chain(shards.iter().map(u16::to_string)).collect(),
            ],
        };
        for (nth, (name, _)) in Phases::default().list().into_iter().enumerate() {
            let cell = |count: &u16| {
                at(*count, kind).map_or_else(String::new, |it| millis(it.phases.list()[nth].1))
            };
            table.row([name.to_owned()].into_iter().chain(shards.iter().map(cell)));
        }
        let total =
            |count: &u16| at(*count, kind).map_or_else(String::new, |it| millis(it.phases.total()));
        table.row(["all".to_owned()].into_iter().chain(shards.iter().map(total)));
        let rate =
            |count: &u16| at(*count, kind).map_or_else(String::new, |it| whole(it.per_second));
        table.row(
            [format!("renames/s, {callers} callers")].into_iter().chain(shards.iter().map(rate)),
        );
        tables.push(table);
    }
    let series = Kind::ALL.map(|kind| {
        let points = all.iter().filter(|it| it.kind == kind);
        let points = points.map(|it| (f64::from(it.shards), it.phases.total() / 1e3));
        Series::line(kind.name(), points.collect::<Vec<_>>())
    });
    Figure {
        name: "figure-14".to_owned(),
        title: "renames, phase by phase (§5.6)".to_owned(),
        nature: Nature::Measured,
        tables,
        same: "renames of files take the same with any number of shards, and less than those of directories; what shards add to these is the \
               broadcast, which goes to all at once"
            .to_owned(),
        different: "the paper's phases are only plotted; \"near 10K ops/sec\" there for directories (§5.6): see the model. All shards share one \
                    machine here, and a directory that stays with its parent needs no check for loops"
            .to_owned(),
        data: json!({ "round_trip": round_trip, "callers": callers, "renames": all }),
        charts: vec![Chart {
            file: "figure-14".to_owned(),
            title: "Figure 14: one rename, by the number of shards".to_owned(),
            x: Axis::linear("shards"),
            y: Axis::linear("milliseconds"),
            series: series.into(),
        }],
    }
}
