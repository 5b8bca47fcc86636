//! Formats figures for people.

use pando_bench::echo::{EchoReport, Socket};
use pando_bench::pairs::{PairsReport, Spread};
use pando_bench::requests::{RequestPair, Requests};
use pando_bench::{Layout, Report, Workload};
use serde_json::Value;

use crate::output::text::{count, table};

pub fn metadata(facts: &Value, report: &Report) -> String {
    let fact = |key: &str| facts[key].as_str().map(str::to_owned);
    let mut text = format!("{} files, {}", count(report.workload.files), clients(&report.workload));
    if facts["in_flight"].as_u64().is_some_and(|each| each > 1) {
        text.push_str(&format!(" with {} in flight each", facts["in_flight"]));
    }
    if let Some(target) = fact("target") {
        text.push_str(&format!("; {target}"));
    }
    if let Some(shards) = facts["shards"].as_u64() {
        text.push_str(&format!(", {shards} shard{}", if shards == 1 { "" } else { "s" }));
    }
    if let Some(durability) = fact("durability") {
        text.push_str(&format!(", durability {durability}"));
    }
    if let Some(file_system) = fact("file_system") {
        text.push_str(&format!(" ({file_system})"));
    }
    text.push('\n');
    text.push_str(&phases(report));
    text
}

fn clients(workload: &Workload) -> String {
    let directories = match (workload.layout, workload.clients) {
        (_, 1) => "1 client".to_owned(),
        (Layout::Shared, clients) => format!("{clients} clients in one directory"),
        (Layout::Unique, clients) => format!("{clients} clients, a directory each"),
    };
    format!("{directories}, depth {}", workload.depth)
}

pub fn phases(report: &Report) -> String {
    let has_requests = report.phases.iter().any(|phase| phase.requests_per_operation.is_some());
    let mut heading = vec!["phase", "operations/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs"];
    if has_requests {
        heading.extend(["requests/op", "CPU µs/op"]);
    }
    let mut rows = vec![heading.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for phase in &report.phases {
        let latency = phase.latency_micros;
        let mut row = vec![phase.phase.to_string(), count(phase.ops_per_second.round() as u64)];
        row.extend([latency.p50, latency.p99, latency.p99_9, latency.max].map(micros));
        if has_requests {
            row.push(format!("{:.2}", phase.requests_per_operation.unwrap_or_default()));
            row.push(format!("{:.2}", phase.cpu_micros_per_operation.unwrap_or_default()));
        }
        rows.push(row);
    }
    table(&rows)
}

pub fn micros(micros: f64) -> String {
    if micros < 100.0 { format!("{micros:.1}") } else { count(micros.round() as u64) }
}

pub fn echo(reports: &[EchoReport]) -> String {
    let heading =
        ["socket", "connections", "outstanding", "frames/s", "p50 µs", "p99 µs", "p99.9 µs"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for report in reports {
        let latency = report.latency_micros;
        rows.push(vec![
            match report.load.socket {
                Socket::Tcp => "TCP".to_owned(),
                Socket::Unix => "Unix".to_owned(),
            },
            report.load.connections.to_string(),
            report.load.outstanding.to_string(),
            count(report.frames_per_second.round() as u64),
            micros(latency.p50),
            micros(latency.p99),
            micros(latency.p99_9),
        ]);
    }
    table(&rows)
}

pub fn pairs(a: &str, b: &str, report: &PairsReport) -> String {
    let mut text = format!(
        "{}, {} files, {} pairs: median (from – to)\n",
        clients(&report.workload),
        count(report.workload.files),
        report.pairs
    );
    let rate = |spread: Spread| {
        let whole = |figure: f64| count(figure.round() as u64);
        format!("{} ({} – {})", whole(spread.median), whole(spread.min), whole(spread.max))
    };
    let heading = ["phase".to_owned(), format!("{a}/s"), format!("{b}/s"), "ratio".to_owned()];
    let mut rows = vec![heading.to_vec()];
    for phase in &report.phases {
        let ratio = phase.ratio;
        rows.push(vec![
            phase.phase.to_string(),
            rate(phase.a),
            rate(phase.b),
            format!("{:.2} ({:.2} – {:.2})", ratio.median, ratio.min, ratio.max),
        ]);
    }
    text.push_str(&table(&rows));
    text
}

pub fn requests(a: &str, b: &str, pair: &RequestPair) -> String {
    if pair.are_equal {
        return format!(
            "requests of the kernel for each operation, equal for both: {}",
            asked(&pair.a)
        );
    }
    format!(
        "requests of the kernel for each operation DIFFER:\n  {a}: {}\n  {b}: {}",
        asked(&pair.a),
        asked(&pair.b)
    )
}

fn asked(requests: &Requests) -> String {
    let phase = |(phase, opcodes): (&&str, &std::collections::BTreeMap<String, f64>)| {
        let opcodes: Vec<_> =
            opcodes.iter().map(|(opcode, times)| format!("{times} {opcode}")).collect();
        format!("{phase} {}", opcodes.join(" + "))
    };
    requests.iter().map(phase).collect::<Vec<_>>().join("; ")
}
