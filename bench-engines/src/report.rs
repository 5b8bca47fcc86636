//! Results, and whether they are what was asked for.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::Data;

const OURS: &str = "babu";
const BESIDE: &str = "rocksdb";

/// All that was measured, as `--json` prints it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// On what.
    pub machine: String,
    /// How.
    pub command: String,
    /// Load of the machine before the first job, and after the last.
    pub load: [f64; 2],
    /// Rates.
    pub rows: Vec<Row>,
    /// Memory of trees.
    pub memory: Vec<Memory>,
    /// Space of files.
    pub disk: Vec<Disk>,
    /// What a steady load writes.
    pub write_amplification: Vec<Amplification>,
    /// What an engine does not have.
    pub unsupported: Vec<String>,
    /// What went wrong.
    pub failed: Vec<String>,
    /// What was asked for, and what came of it.
    pub bars: Vec<Bar>,
}

/// A rate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// What.
    pub workload: String,
    /// In which state.
    pub data: Data,
    /// By whom.
    pub engine: String,
    /// Median of the runs: operations, of scans entries, of a snapshot records in a second.
    pub ops_per_s: f64,
    /// Groups for each log write.
    pub batch: u64,
    /// In one run.
    pub operations: u64,
    /// All runs, sorted.
    pub runs: Vec<f64>,
    /// What was not as it should be.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// What else is to be known.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Memory of an engine with all records in trees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Memory {
    /// Of whom.
    pub engine: String,
    /// Records.
    pub entries: u64,
    /// Resident, mapped files included.
    pub bytes_per_entry: f64,
    /// Resident, mapped files not included.
    pub own_bytes_per_entry: f64,
    /// What is stored.
    pub key_and_value_bytes: f64,
    /// Of the first to the last.
    pub ratio: f64,
}

/// Space of an engine with all records in files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Disk {
    /// Of whom.
    pub engine: String,
    /// Records.
    pub entries: u64,
    /// Blocks of the file system.
    pub bytes_per_entry: f64,
}

/// What an engine writes for what is changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Amplification {
    /// By whom.
    pub engine: String,
    /// Of the next two.
    pub ratio: f64,
    /// By the kernel's count.
    pub written_bytes: f64,
    /// Keys and values.
    pub changed_bytes: f64,
    /// Changes in a second.
    pub ops_per_s: f64,
}

/// A demand, and whether it is met.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bar {
    /// What is asked for.
    pub demand: String,
    /// What it came to.
    pub value: f64,
    /// What it had to be: at least, or at most.
    pub bar: f64,
    /// Whether it is.
    pub met: bool,
}

impl Results {
    /// Compares with what was asked for.
    pub fn judge(&mut self) {
        let mut bars = Vec::new();
        for row in self.rows.iter().filter(|row| row.engine == OURS) {
            let name = format!("{} ({})", row.workload, row.data.name());
            if let (Some(times), Some(beside)) = (times_rocksdb(row), self.rate(row, BESIDE)) {
                bars.push(at_least(format!("{name} / rocksdb"), row.ops_per_s / beside, times));
            }
            if let Some((engine, best)) = self.best_other(row) {
                bars.push(at_least(
                    format!("{name} / {engine}, the best other"),
                    row.ops_per_s / best,
                    1.0,
                ));
            }
            let figure = |name: &str| row.more.get(name).and_then(Value::as_f64);
            if let (Some(ratio), Some(pause)) = (figure("p99_ratio"), figure("longest_pause_ms")) {
                bars.push(at_most(
                    format!("{name}: p99 beside a checkpoint / without"),
                    ratio,
                    1.3,
                ));
                bars.push(at_most(format!("{name}: longest pause, ms"), pause, 20.0));
            }
        }
        if let Some(memory) = self.memory.iter().rev().find(|memory| memory.engine == OURS) {
            let demand = format!("memory / (key + value) of {} entries", memory.entries);
            bars.push(at_most(demand, memory.ratio, 1.5));
        }
        let disk = |engine: &str| self.disk.iter().find(|disk| disk.engine == engine);
        if let (Some(ours), Some(beside)) = (disk(OURS), disk(BESIDE)) {
            let ratio = ours.bytes_per_entry / beside.bytes_per_entry;
            bars.push(at_most("disk bytes of an entry / rocksdb".to_owned(), ratio, 1.0));
        }
        self.bars = bars;
    }

    /// Adds the results of another run, of other workloads.
    pub fn join(&mut self, other: Results) {
        if self.command.is_empty() {
            (self.machine, self.load) = (other.machine, other.load);
        } else {
            self.command.push_str(" ; ");
            self.load = [self.load[0].max(other.load[0]), self.load[1].max(other.load[1])];
        }
        self.command.push_str(&other.command);
        self.rows.extend(other.rows);
        self.memory.extend(other.memory);
        self.disk.extend(other.disk);
        self.write_amplification.extend(other.write_amplification);
        self.unsupported.extend(other.unsupported);
        self.failed.extend(other.failed);
    }

    /// To standard output.
    pub fn print(&self, json: bool) -> serde_json::Result<()> {
        match json {
            true => println!("{}", serde_json::to_string(self)?),
            false => print!("{}", self.table()),
        }
        Ok(())
    }

    /// The rate of an engine at the same work.
    fn rate(&self, like: &Row, engine: &str) -> Option<f64> {
        let same = |row: &&Row| row.is_like(like) && row.engine == engine;
        self.rows.iter().find(same).map(|row| row.ops_per_s)
    }

    /// The best of all other engines, variants included.
    fn best_other(&self, like: &Row) -> Option<(&str, f64)> {
        let others = self.rows.iter().filter(|row| row.is_like(like) && row.engine != OURS);
        let best = others.max_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s))?;
        Some((&best.engine, best.ops_per_s))
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut out = format!("{}\nload {:.1} – {:.1}\n", self.machine, self.load[0], self.load[1]);
        let mut engines: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !engines.contains(&row.engine.as_str()) {
                engines.push(&row.engine);
            }
        }
        engines.sort_by_key(|engine| {
            crate::store::Engine::all().iter().position(|e| e.name() == *engine)
        });
        let _ = write!(out, "\n{:<28}", "operations/s");
        for engine in &engines {
            let _ = write!(out, "{engine:>15}");
        }
        out.push_str("      / rocksdb  / best other\n");
        let mut seen: Vec<&Row> = Vec::new();
        for row in &self.rows {
            if !seen.iter().any(|other| other.is_like(row)) {
                seen.push(row);
            }
        }
        for like in seen {
            let _ = write!(out, "{:<28}", format!("{} ({})", like.workload, like.data.name()));
            for engine in &engines {
                let rate = self.rate(like, engine).map_or_else(|| "–".to_owned(), grouped);
                let _ = write!(out, "{rate:>15}");
            }
            if let Some(ours) = self.rate(like, OURS) {
                let beside = self.rate(like, BESIDE).map(|rate| ours / rate);
                let best = self.best_other(like).map(|(_, rate)| ours / rate);
                for ratio in [beside, best] {
                    let _ = write!(
                        out,
                        "{:>14}",
                        ratio.map_or_else(String::new, |r| format!("{r:.2}"))
                    );
                }
            }
            out.push('\n');
        }
        self.figures(&mut out);
        out
    }

    /// What is no rate, and the verdict.
    fn figures(&self, out: &mut String) {
        for row in self.rows.iter().filter(|row| row.more.contains_key("longest_pause_ms")) {
            let figure =
                |name: &str| row.more.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
            let _ = writeln!(
                out,
                "beside a checkpoint ({:.2} s), {}: p50 {:.1} → {:.1} µs, p99 {:.1} → {:.1} µs, longest {:.2} → {:.2} ms",
                figure("checkpoint_seconds"),
                row.engine,
                figure("quiet_p50_us"),
                figure("p50_us"),
                figure("quiet_p99_us"),
                figure("p99_us"),
                figure("quiet_longest_ms"),
                figure("longest_pause_ms"),
            );
        }
        for memory in &self.memory {
            let _ = writeln!(
                out,
                "memory of {} entries, {}: {:.0} bytes each ({:.0} without mapped files), {:.2} × key + value",
                memory.entries,
                memory.engine,
                memory.bytes_per_entry,
                memory.own_bytes_per_entry,
                memory.ratio,
            );
        }
        for disk in &self.disk {
            let _ =
                writeln!(out, "disk, {}: {:.1} bytes an entry", disk.engine, disk.bytes_per_entry);
        }
        for amplification in &self.write_amplification {
            let _ = writeln!(
                out,
                "steady random load, {}: {:.2} bytes written for each changed, {} changes/s",
                amplification.engine,
                amplification.ratio,
                grouped(amplification.ops_per_s),
            );
        }
        for row in self.rows.iter() {
            if let Some(note) = &row.note {
                let _ = writeln!(out, "{} {}: {note}", row.workload, row.engine);
            }
        }
        for (title, lines) in [("not there", &self.unsupported), ("FAILED", &self.failed)] {
            for line in lines {
                let _ = writeln!(out, "{title}: {line}");
            }
        }
        out.push('\n');
        for bar in &self.bars {
            let verdict = if bar.met { "met    " } else { "NOT MET" };
            let _ =
                writeln!(out, "{verdict}  {:.2} (bar {:.2})  {}", bar.value, bar.bar, bar.demand);
        }
    }
}

impl Row {
    fn is_like(&self, other: &Row) -> bool {
        self.workload == other.workload && self.data == other.data
    }
}

impl Data {
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            Data::Trees => "trees",
            Data::Mixed => "mixed",
        }
    }
}

/// How many times RocksDB's rate is asked for.
fn times_rocksdb(row: &Row) -> Option<f64> {
    let name = row.workload.as_str();
    match row.data {
        _ if name.starts_with("create_fsync") || name == "create_during_checkpoint" => None,
        _ if name.starts_with("create") || name == "short_lived" || name == "groups_of_3" => {
            Some(5.0)
        }
        _ if name == "delete_all" => Some(3.0),
        _ if name == "lookup_present" => Some(2.5),
        Data::Trees if name.starts_with("scan") => Some(3.0),
        Data::Mixed if name.starts_with("scan") => Some(1.5),
        _ => None,
    }
}

fn at_least(demand: String, value: f64, bar: f64) -> Bar {
    Bar { demand, value, bar, met: value >= bar }
}

fn at_most(demand: String, value: f64, bar: f64) -> Bar {
    Bar { demand, value, bar, met: value <= bar }
}

/// 1234567 as 1,234,567.
fn grouped(number: f64) -> String {
    let digits = (number.round() as u64).to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, rate: f64) -> Row {
        Row {
            workload: "create_1m".to_owned(),
            data: Data::Trees,
            engine: engine.to_owned(),
            ops_per_s: rate,
            batch: 1,
            operations: 1,
            runs: vec![rate],
            note: None,
            more: Map::new(),
        }
    }

    #[test]
    fn a_bar_compares_with_rocksdb_and_with_the_best() {
        let rows = vec![row("babu", 600.0), row("rocksdb", 100.0), row("lmdb", 700.0)];
        let mut results = Results { rows, ..Results::default() };
        results.judge();
        let verdicts: Vec<_> = results.bars.iter().map(|bar| (bar.value, bar.met)).collect();
        assert_eq!(verdicts, [(6.0, true), (600.0 / 700.0, false)]);
        assert!(results.table().contains("NOT MET  0.86"), "{}", results.table());
    }

    #[test]
    fn runs_of_several_workloads_are_judged_as_one() {
        let rows = |name: &str| {
            let named = |row: Row| Row { workload: name.to_owned(), ..row };
            vec![named(row("babu", 600.0)), named(row("rocksdb", 100.0))]
        };
        let run = |name: &str, load: f64| Results {
            rows: rows(name),
            command: name.to_owned(),
            load: [load, 0.0],
            ..Results::default()
        };
        let mut results = Results::default();
        results.join(run("create_1m", 0.1));
        results.join(run("short_lived", 3.0));
        results.judge();
        assert_eq!((results.rows.len(), results.bars.len()), (4, 4));
        assert!(results.bars.iter().all(|bar| bar.met));
        assert_eq!((results.command.as_str(), results.load[0]), ("create_1m ; short_lived", 3.0));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
    }
}
