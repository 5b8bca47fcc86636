//! Measures the cost of each step on this machine. The costs are the input of the model.
//!
//! Costs of shard steps are medians from [`super::shards`]. The costs of codec and sockets are
//! added for each frame. `pando-bench parts` measures those for one frame at a time. Here they are
//! measured in batches, as eight processes of a client make them.

use std::time::{Duration, Instant};

use pando_bench::Watch;
use pando_bench::echo::{self, Load, Socket};
use pando_bench::repro::THRESHOLD;
use pando_bench::repro::des::Costs;
use pando_bench::repro::figure::{Figure, Nature, Table, whole};
use pando_bench::repro::redundant::Bytes;
use pando_types::op::Request;
use pando_types::peer::Peer;
use pando_types::reply::Reply;
use pando_wire::{Decoder, Stream, encode_peer, encode_reply, encode_request};
use serde::Serialize;
use serde_json::json;

use super::shards::{Sample, Shards, Step};
use crate::output::failure::Failure;

/// Rows of a full page (`Config::new`).
const PAGE_ROWS: u64 = 128;
/// Clients that use each directory for the first time after its split.
const STRANGERS: u32 = 200;
/// Repetitions for the time of the codec.
const CODEC_TIMES: u32 = 2_000;

/// Nanoseconds of one step: the median, and the 99th percentile.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    pub step: &'static str,
    pub samples: usize,
    pub median: u64,
    pub p99: u64,
}

/// All measured costs.
#[derive(Clone, Debug, Serialize)]
pub struct Steps {
    /// Steps of shards, without codec and sockets.
    pub shard: Vec<Cost>,
    /// Nanoseconds to encode and decode a create's request and its reply.
    pub codec_create: u64,
    pub codec_page: [u64; 2],
    /// Nanoseconds of a frame in and a frame out, for one side of a socket with many frames in
    /// flight.
    pub frame: u64,
    /// Nanoseconds: half of the round trip of one frame over TCP on this machine.
    pub hop: u64,
    /// Nanoseconds of the client library for a create, measured with one shard in this process.
    pub client: u64,
    /// Encoded sizes of frames, in bytes.
    pub bytes: Bytes,
    /// The model's input for shards that are reached over TCP.
    pub costs: Costs,
    /// The model's input for shards in the caller's process and thread.
    pub in_process: Costs,
}

/// Measures all costs. `create_in_process` is the time of a create for a single client in this
/// process, in nanoseconds.
pub fn measure(
    directories: u32,
    echo_time: Duration,
    create_in_process: f64,
    watch: &dyn Watch,
) -> Result<Steps, Failure> {
    let mut shards = Shards::new(2, 1, THRESHOLD)?;
    let mut samples = Vec::new();
    let (mut known, mut name) = (None, 0_u64);
    watch.begin("splits", directories.into());
    for directory in 0..directories {
        let mut dir = shards.mkdir(&format!("dir{directory}"))?;
        shards.samples = Some(Vec::new());
        // Fills the directory until its split is over, and further. One message between shards is
        // delivered for every fourth create.
        for _ in 0..THRESHOLD * 3 / 2 {
            shards.create(&mut dir, &format!("file.{name:08}"))?;
            name += 1;
            if name.is_multiple_of(4) {
                shards.deliver()?;
            }
        }
        let mut kept = shards.samples.take().unwrap_or_default();
        shards.settle()?;
        // A client without a map asks the wrong shard in half of the cases.
        shards.samples = Some(Vec::new());
        for number in 0..STRANGERS {
            let name = format!("stranger.{number}");
            shards.create(&mut Shards::stranger(&dir), &name)?;
        }
        let strange = shards.samples.take().unwrap_or_default();
        kept.extend(strange.into_iter().filter(|sample| sample.step == Step::Redirect));
        samples.extend(kept);
        watch.advance(directory.into());
        if watch.is_interrupted() {
            return Err(Failure::plain("interrupted"));
        }
        known = Some(dir);
    }
    split_here(&mut samples)?;
    watch.end();
    let page = shards.last_page.take();
    let (Some(mut known), Some(page)) = (known, page) else {
        return Err(Failure::plain("nothing was split"));
    };
    let (request, reply) = shards.example(&mut known, "the last one")?;
    let frames = Frames::measure(&request, &reply, &page)?;
    let per_row = shards.sent.page_bytes as f64 / shards.sent.page_rows.max(1) as f64;
    let bytes = Bytes { create: frames.create_bytes as f64, moved_entry: per_row };
    let echo = |outstanding, connections| {
        let load = Load { socket: Socket::Tcp, outstanding, connections };
        let report = echo::run(load, echo_time, watch);
        let report = report
            .map_err(|error| Failure::plain(format!("sending frames to and fro: {error}")))?;
        Ok::<_, Failure>(1e9 / report.frames_per_second)
    };
    let (round_trip, frame) = (echo(1, 1)?, echo(64, 8)?);
    Ok(assemble(&samples, &frames, bytes, [round_trip, frame], create_in_process))
}

/// Measures splits within one shard, of partitions of equal size.
fn split_here(samples: &mut Vec<Sample>) -> Result<(), Failure> {
    let mut shards = Shards::new(1, 4, THRESHOLD)?;
    let mut dir = shards.mkdir("dir")?;
    shards.samples = Some(Vec::new());
    for number in 0..THRESHOLD * 5 / 2 {
        shards.create(&mut dir, &format!("file.{number:08}"))?;
    }
    let all = shards.samples.take().unwrap_or_default();
    samples.extend(all.into_iter().filter(|sample| sample.step == Step::SplitHere));
    Ok(())
}

/// Times and sizes of encoded frames.
struct Frames {
    create: u64,
    page: [u64; 2],
    create_bytes: usize,
}

impl Frames {
    fn measure(request: &Request, reply: &Reply, page: &Peer) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, Stream(1), request);
        encode_reply(&mut bytes, Stream(1), reply);
        let create_bytes = bytes.len();
        let create = each(|| {
            bytes.clear();
            encode_request(&mut bytes, Stream(1), request);
            encode_reply(&mut bytes, Stream(1), reply);
            decode(&bytes, 2)
        })?;
        let mut encoded = Vec::new();
        let encode = each(|| {
            encoded.clear();
            let fits = encode_peer(&mut encoded, page);
            fits.then_some(()).ok_or_else(|| Failure::plain("a page is too long for a frame"))
        })?;
        Ok(Self { create, page: [encode, each(|| decode(&encoded, 1))?], create_bytes })
    }
}

/// Mean nanoseconds of many runs.
fn each(mut run: impl FnMut() -> Result<(), Failure>) -> Result<u64, Failure> {
    let begun = Instant::now();
    for _ in 0..CODEC_TIMES {
        run()?;
    }
    Ok(begun.elapsed().as_nanos() as u64 / u64::from(CODEC_TIMES))
}

fn decode(bytes: &[u8], messages: u32) -> Result<(), Failure> {
    let mut decoder = Decoder::new();
    decoder.feed(bytes);
    for _ in 0..messages {
        match decoder.message() {
            Ok(Some(_)) => {}
            other => return Err(Failure::plain(format!("a frame is not what it was: {other:?}"))),
        }
    }
    Ok(())
}

/// Steps in the order of the table.
const STEPS: [(Step, &str); 10] = [
    (Step::Create, "create"),
    (Step::Redirect, "create, misrouted"),
    (Step::PageRead, "page of 128 rows, read at the source"),
    (Step::PageTake, "page of 128 rows, taken at the target"),
    (Step::Close, "exchange: closed and sent by the source"),
    (Step::Arrive, "exchange: taken by the target"),
    (Step::Decide, "exchange: decided by the source"),
    (Step::Own, "exchange: the target owns"),
    (Step::SplitHere, "split within a shard, 4,000 entries move"),
    (Step::Sync, "fsync of a log"),
];

fn assemble(
    samples: &[Sample],
    frames: &Frames,
    bytes: Bytes,
    [round_trip, frame]: [f64; 2],
    create_in_process: f64,
) -> Steps {
    let of = |wanted: Step| {
        let is_page = matches!(wanted, Step::PageRead | Step::PageTake);
        let full = samples.iter().filter(|s| s.step == wanted && (!is_page || s.rows == PAGE_ROWS));
        let mut nanos: Vec<u64> = full.map(|sample| sample.nanos).collect();
        nanos.sort_unstable();
        nanos
    };
    let at = |nanos: &[u64], part: usize| nanos.get(nanos.len() * part / 100).copied().unwrap_or(0);
    let shard: Vec<Cost> = STEPS
        .iter()
        .map(|(step, words)| {
            let nanos = of(*step);
            Cost { step: words, samples: nanos.len(), median: at(&nanos, 50), p99: at(&nanos, 99) }
        })
        .collect();
    let median = |step| at(&of(step), 50);
    let (create, frame) = (median(Step::Create), frame as u64);
    let client = (create_in_process as u64).saturating_sub(create);
    let in_process = Costs {
        create,
        redirect: median(Step::Redirect),
        client,
        hop: 0,
        page_rows: PAGE_ROWS,
        page_read: median(Step::PageRead),
        page_take: median(Step::PageTake),
        close: median(Step::Close),
        arrive: median(Step::Arrive),
        decide: median(Step::Decide),
        own: median(Step::Own),
        split_here_entry: median(Step::SplitHere) / (THRESHOLD / 2),
        sync: median(Step::Sync),
    };
    let costs = over_sockets(in_process, frames, frame, (round_trip / 2.0) as u64);
    Steps {
        shard,
        codec_create: frames.create,
        codec_page: frames.page,
        frame,
        hop: costs.hop,
        client,
        bytes,
        costs,
        in_process,
    }
}

/// Costs of a process that is reached over sockets. `frame` is the cost of one frame, `hop` one way
/// of a message.
fn over_sockets(in_process: Costs, frames: &Frames, frame: u64, hop: u64) -> Costs {
    // A server decodes requests and encodes replies, which is half of the work on both.
    let codec = frames.create / 2;
    Costs {
        create: in_process.create + codec + frame,
        redirect: in_process.redirect + codec + frame,
        client: in_process.client + codec + frame,
        hop,
        page_read: in_process.page_read + frames.page[0] + frame,
        page_take: in_process.page_take + frames.page[1] + frame,
        close: in_process.close + frame,
        arrive: in_process.arrive + frame,
        decide: in_process.decide + frame,
        own: in_process.own + frame,
        ..in_process
    }
}

impl Steps {
    /// The costs as a figure with a table.
    pub fn figure(&self) -> Figure {
        let mut table = Table::new(
            "MEASURED, microseconds: core, store and log of a shard, without codec and sockets",
            ["step", "samples", "median", "p99"],
        );
        let micros = |nanos: u64| format!("{:.2}", nanos as f64 / 1e3);
        for cost in &self.shard {
            let samples = whole(cost.samples as f64);
            table.row([cost.step.to_owned(), samples, micros(cost.median), micros(cost.p99)]);
        }
        let mut rest = Table::new("MEASURED: what comes to it", ["", "µs or bytes"]);
        let mut row = |what: &str, figure: String| rest.row([what.to_owned(), figure]);
        row("codec of a create, both ends", micros(self.codec_create));
        row("codec of a page: encoding", micros(self.codec_page[0]));
        row("codec of a page: decoding", micros(self.codec_page[1]));
        row("frame in and frame out of a socket, batched", micros(self.frame));
        row("message on its way: half of a TCP round trip on this machine", micros(self.hop));
        row("client library and shell, in process", micros(self.client));
        row("bytes of a create, request and reply", whole(self.bytes.create));
        row("bytes of an entry in a page", whole(self.bytes.moved_entry));
        let mut fed = Table::new(
            "what the model is fed with, microseconds: over TCP, and in one process",
            ["", "over TCP", "in process"],
        );
        let (tcp, here) = (&self.costs, &self.in_process);
        for (what, tcp, here) in [
            ("create", tcp.create, here.create),
            ("misrouted request", tcp.redirect, here.redirect),
            ("client between requests", tcp.client, here.client),
            ("message on its way", tcp.hop, here.hop),
            ("page read", tcp.page_read, here.page_read),
            ("page taken", tcp.page_take, here.page_take),
            ("fsync", tcp.sync, here.sync),
        ] {
            fed.row([what.to_owned(), micros(tcp), micros(here)]);
        }
        Figure {
            name: "steps".to_owned(),
            title: "what each step costs: the model's input".to_owned(),
            nature: Nature::Measured,
            tables: vec![table, rest, fed],
            same: "the paper gives no such costs, but for a server's create rate (Table 1, §5.2)"
                .to_owned(),
            different: "medians of this machine, with whatever else ran on it".to_owned(),
            data: json!(self),
            charts: Vec::new(),
        }
    }
}
