//! `pando-bench mix`: measures a mix of operations on a tree.

use std::process::ExitCode;

use pando_bench::mix::{self, Mix, MixReport, WaysReport};
use serde_json::{Value, json};

use super::args::MixArgs;
use super::show;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;
use crate::output::text::{count, table};
use crate::volume::here::connect;

pub fn run(args: &MixArgs) -> Result<ExitCode, Failure> {
    let mix = args.mix();
    mix.check().map_err(Failure::from)?;
    let progress = Progress::new(args.json)?;
    let (report, facts) = measure(args, &mix, &progress)?;
    if args.json {
        let report_json = serde_json::to_value(&report).unwrap_or_default();
        print::json(&with(with(context(), facts), report_json));
    } else {
        print::line(shown(&facts, &report).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &MixArgs, mix: &Mix, progress: &Progress) -> Result<(MixReport, Value), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::plain(format!("cannot start a runtime: {error}")))?;
    runtime.block_on(async {
        let target = args.target.as_deref();
        let connected = connect(target, args.shards, args.durability, args.key.as_ref()).await?;
        let facts = json!({
            "table": "InfiniFS, Table 1",
            "target": connected.shown,
            "shards": connected.shards,
            "durability": connected.durability,
        });
        let (transport, volume) = (connected.transport.clone(), connected.volume.clone());
        let keep = args.keep || connected.is_temporary;
        let report = mix::run(transport, volume, mix, keep, progress).await;
        Ok((report.map_err(Failure::from)?, facts))
    })
}

fn shown(facts: &Value, report: &MixReport) -> String {
    let MixReport { mix, .. } = report;
    let mut text = format!(
        "{} operations in the mix of {}, {} client{}",
        count(report.operations),
        facts["table"].as_str().unwrap_or_default(),
        mix.clients,
        if mix.clients == 1 { "" } else { "s" },
    );
    if mix.in_flight > 1 {
        text.push_str(&format!(" with {} in flight each", mix.in_flight));
    }
    text.push_str(&format!(
        ", depth {}, {} files at first, {} in the end; {}, {} shard{}",
        mix.depth,
        count(mix.files),
        count(report.files_left),
        facts["target"].as_str().unwrap_or_default(),
        facts["shards"],
        if facts["shards"] == 1 { "" } else { "s" },
    ));
    if let Some(durability) = facts["durability"].as_str() {
        text.push_str(&format!(", durability {durability}"));
    }
    text.push_str(&format!(
        "\n{} operations/s, {:.2} requests and {:.1} µs of CPU for each; every reply was compared\n\n",
        count(report.ops_per_second.round() as u64),
        report.requests_per_operation,
        report.cpu_micros_per_operation,
    ));
    let heading =
        ["operation", "in the table", "here", "count", "p50 µs", "p99 µs", "p99.9 µs", "max µs"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for kind in &report.kinds {
        let share = kind.count as f64 / report.operations.max(1) as f64;
        let mut row = vec![kind.operation.to_string(), percent(kind.wanted), percent(share)];
        row.push(count(kind.count));
        let latency = kind.latency_micros;
        match kind.count {
            0 => row.extend(["–"; 4].map(str::to_owned)),
            _ => {
                row.extend([latency.p50, latency.p99, latency.p99_9, latency.max].map(show::micros))
            }
        }
        rows.push(row);
    }
    text.push_str(&table(&rows));
    text.push_str(&remembered(&report.ways));
    text
}

/// Describes in words how well the clients' remembered directories served them.
fn remembered(ways: &WaysReport) -> String {
    let asked = (ways.hits + ways.misses).max(1);
    format!(
        "\nof directories on paths {} were remembered; {} directories ({} KiB) in the end; forgotten: {} for room, {} that had \
         changed; {} requests refused, {} rounds of guesses, {} of them with a second trip\n",
        percent(ways.hits as f64 / asked as f64),
        count(ways.directories),
        count(ways.bytes.div_ceil(1024)),
        count(ways.evictions),
        count(ways.drops),
        count(ways.refusals),
        count(ways.rounds),
        count(ways.repeats),
    )
}

fn percent(share: f64) -> String {
    format!("{:.4} %", share * 100.0)
}
