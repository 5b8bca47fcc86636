//! `pando-bench growth`: measures how much splits of a directory slow down creates.

mod mounted;
mod resident;

use std::num::NonZeroU16;
use std::process::ExitCode;

use pando_bench::growth::{self, Growth, Settings, WINDOW};
use pando_bench::pairs::Spread;
use pando_server::Folder;
use pando_server::host::HostOptions;
use pando_server::host::status::ShardStatus;
use serde::Serialize;
use serde_json::json;

use super::args::GrowthArgs;
use super::show;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;
use crate::output::text::{count, table};
use crate::volume::here::{Connected, open, temporary};
use crate::volume::servers::Server;
use mounted::Mounted;
use resident::resident;

/// The result of one run, in which one directory grows.
#[derive(Clone, Debug, Serialize)]
struct Run {
    #[serde(flatten)]
    growth: Growth,
    worst_window: u64,
    work: Work,
    /// How the directory is listed through a mount, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<Mounted>,
}

/// Work of all shards together in one run.
#[derive(Clone, Copy, Default, Debug, Serialize)]
struct Work {
    splits: u64,
    /// Entries that splits sent to another shard.
    entries_moved: u64,
    /// Client requests that reached the wrong shard.
    redirected: u64,
    requests: u64,
    log_bytes: u64,
    index_bytes: u64,
    /// Growth of the process's resident memory since before the volume was opened, in bytes.
    memory_bytes: u64,
    /// Bytes that the volume's folder takes on disk.
    disk_bytes: u64,
}

/// A run in which the directory splits, its control without splits, and their comparison.
#[derive(Clone, Debug, Serialize)]
struct Pair {
    growth: Run,
    control: Run,
    /// Slowest window of the growth run divided by that of the control.
    worst_window_ratio: f64,
    /// Slowest create of the growth run minus that of the control, in microseconds.
    slowest_more_micros: f64,
}

pub fn run(args: &GrowthArgs) -> Result<ExitCode, Failure> {
    let progress = Progress::new(args.json)?;
    if args.alone {
        let runs = (0..args.pairs)
            .map(|_| {
                grow(
                    args,
                    (args.split_threshold, HostOptions::default().checkpoint_bytes),
                    &progress,
                )
            })
            .collect::<Result<Vec<_>, _>>()?;
        if args.json {
            print::json(&with(context(), json!({ "runs": runs })));
        } else {
            runs.iter().for_each(|run| print::line(show_run(args, run).trim_end()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut pairs = Vec::new();
    for pair in 0..=args.pairs {
        let name = if pair == 0 { "before".to_owned() } else { format!("pair {pair}") };
        progress.part(&format!("{name}, growth"));
        // Neither run makes a checkpoint. A single shard with all entries would make one, while
        // eight shards with an eighth each would not.
        let grown = grow(args, (args.split_threshold, usize::MAX), &progress)?;
        progress.part(&format!("{name}, control"));
        let control = grow(args, (u64::MAX, usize::MAX), &progress)?;
        if pair > 0 {
            pairs.push(Pair::of(grown, control));
        }
    }
    if args.json {
        let summary = json!({ "pairs": pairs, "worst_window_ratio": worst(&pairs) });
        print::json(&with(context(), summary));
    } else {
        print::line(show_pairs(args, &pairs).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn grow(
    args: &GrowthArgs,
    (split_threshold, checkpoint_bytes): (u64, usize),
    progress: &Progress,
) -> Result<Run, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::plain(format!("cannot start a runtime: {error}")))?;
    let options = HostOptions {
        durability: args.durability.into(),
        split_threshold,
        checkpoint_bytes,
        partitions_per_shard: NonZeroU16::new(args.partitions_per_shard),
        ..HostOptions::default()
    };
    let before = resident(std::process::id());
    let server = args.mount.then(|| Server::idle(args.shards)).transpose()?;
    let volume = match &server {
        Some(server) => open(Folder::new(&server.volume())?, &options, None)?,
        None => temporary(args.shards, &options)?,
    };
    let settings = Settings { files: args.files, in_flight: args.in_flight };
    let growing = growth::run(volume.transport.clone(), volume.volume.clone(), settings, progress);
    let growth = runtime.block_on(growing).map_err(Failure::from)?;
    let mut work = Work::of(&volume.status());
    work.memory_bytes = resident(std::process::id()).saturating_sub(before);
    work.disk_bytes = disk_bytes(&volume);
    // Another process serves the volume next, so this one lets it go.
    drop(volume);
    let mount = server.map(|server| mounted::list(server, args)).transpose()?;
    Ok(Run { worst_window: growth.worst_window(), growth, work, mount })
}

impl Work {
    fn of(shards: &[ShardStatus]) -> Self {
        let sum = |name: &str| shards.iter().filter_map(|shard| shard.counters.get(name)).sum();
        Self {
            splits: sum("shard_splits_moved") + sum("shard_splits_local"),
            entries_moved: sum("shard_entries_moved"),
            redirected: sum("redirects"),
            requests: sum("requests"),
            log_bytes: shards.iter().map(|shard| shard.log_bytes_written).sum(),
            index_bytes: shards.iter().map(|shard| shard.index_bytes_written).sum(),
            ..Self::default()
        }
    }

    const fn written(&self) -> u64 {
        self.log_bytes + self.index_bytes
    }
}

impl Pair {
    fn of(growth: Run, control: Run) -> Self {
        let ratio = growth.worst_window as f64 / control.worst_window.max(1) as f64;
        let slowest = |run: &Run| run.growth.latency_micros.max;
        Self {
            worst_window_ratio: (ratio * 1000.0).round() / 1000.0,
            slowest_more_micros: slowest(&growth) - slowest(&control),
            growth,
            control,
        }
    }
}

fn worst(pairs: &[Pair]) -> Spread {
    Spread::of(&pairs.iter().map(|pair| pair.worst_window_ratio).collect::<Vec<_>>())
}

/// Bytes that the volume takes on disk, as the file system counts them.
fn disk_bytes(volume: &Connected) -> u64 {
    fn of(path: &std::path::Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let Ok(entries) = std::fs::read_dir(path) else { return 0 };
        let each = entries.flatten().map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => of(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        });
        each.sum()
    }
    volume.folder().map_or(0, of)
}

fn show_pairs(args: &GrowthArgs, pairs: &[Pair]) -> String {
    let mut text = format!(
        "{} files in one directory over {} shards, {} in flight, each pair: growth, then the same without splits\n",
        count(args.files),
        args.shards,
        args.in_flight
    );
    let heading = [
        "creates/s",
        "control",
        "worst 100 ms",
        "control",
        "ratio",
        "slowest, ms",
        "control",
        "moved",
        "bytes more",
        "misrouted",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for Pair { growth, control, worst_window_ratio, .. } in pairs {
        let rate = |run: &Run| count(run.growth.ops_per_second as u64);
        let slowest = |run: &Run| format!("{:.1}", run.growth.latency_micros.max / 1e3);
        let percent = |part: f64| format!("{:.2} %", part * 100.0);
        let bytes = growth.work.written() as f64 / control.work.written().max(1) as f64 - 1.0;
        rows.push(vec![
            rate(growth),
            rate(control),
            count(growth.worst_window),
            count(control.worst_window),
            format!("{worst_window_ratio:.2}"),
            slowest(growth),
            slowest(control),
            percent(growth.work.entries_moved as f64 / args.files as f64),
            percent(bytes),
            percent(growth.work.redirected as f64 / growth.work.requests.max(1) as f64),
        ]);
    }
    text.push_str(&table(&rows));
    text
}

fn show_run(args: &GrowthArgs, run: &Run) -> String {
    let Run { growth, work, worst_window, mount } = run;
    let each = |bytes: u64| format!("{:.1}", bytes as f64 / args.files as f64);
    let rows = [
        ("creates/s", count(growth.ops_per_second as u64)),
        ("first tenth", count(growth.first_tenth_per_second as u64)),
        ("last tenth", count(growth.last_tenth_per_second as u64)),
        ("worst 100 ms", count(*worst_window * (1000 / WINDOW.as_millis() as u64)) + " a second"),
        ("p50 µs", show::micros(growth.latency_micros.p50)),
        ("p99 µs", show::micros(growth.latency_micros.p99)),
        ("slowest µs", show::micros(growth.latency_micros.max)),
        ("splits", count(work.splits)),
        ("entries moved", count(work.entries_moved)),
        ("requests misrouted", count(work.redirected)),
        ("memory, bytes a file", each(work.memory_bytes)),
        ("disk, bytes a file", each(work.disk_bytes)),
        ("written, bytes a file", each(work.written())),
        ("first page of the listing, µs", show::micros(growth.first_page_micros)),
        ("whole listing, s", format!("{:.2}", growth.listing_seconds)),
    ];
    let mounted = mount.as_ref().map(Mounted::rows).unwrap_or_default();
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .chain(mounted)
        .map(|(name, figure)| vec![name.to_owned(), figure])
        .collect();
    format!(
        "{} files in one directory over {} shards, {} in flight\n{}",
        count(args.files),
        args.shards,
        args.in_flight,
        table(&rows)
    )
}
