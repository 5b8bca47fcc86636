//! The results, and whether they meet the demands.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::Data;

const OURS: &str = "babu";
const BESIDE: &str = "rocksdb";

/// All results, as `--json` prints them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// The machine.
    pub machine: String,
    /// The command that measured them.
    pub command: String,
    /// Load of the machine before the first job and after the last.
    pub load: [f64; 2],
    /// Rates by workload, data and engine.
    pub rows: Vec<Row>,
    /// Memory of each engine for records in trees.
    pub memory: Vec<Memory>,
    /// Space on disk of each engine for records in files.
    pub disk: Vec<Disk>,
    /// Costs of a steady load for each engine.
    pub write_amplification: Vec<Amplification>,
    /// Workloads that an engine lacks.
    pub unsupported: Vec<String>,
    /// Jobs that failed, with their errors.
    pub failed: Vec<String>,
    /// babu's rate compared with the others', row by row.
    #[serde(default)]
    pub ratios: Vec<Ratio>,
    /// The demands, and whether they are met.
    pub bars: Vec<Bar>,
}

/// The rate of one engine for one workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Name of the workload.
    pub workload: String,
    /// Where the records were.
    pub data: Data,
    /// Name of the engine.
    pub engine: String,
    /// Median of the runs, in operations a second. An operation of a scan is an entry, and that of
    /// a snapshot is a record.
    pub ops_per_s: f64,
    /// Insert groups for each log write.
    pub batch: u64,
    /// Number of operations in one run.
    pub operations: u64,
    /// Rates of all runs, ascending.
    pub runs: Vec<f64>,
    /// What went wrong without failing the job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// Further figures.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Memory of an engine whose records are all in trees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Memory {
    /// Name of the engine.
    pub engine: String,
    /// Number of records.
    pub entries: u64,
    /// Resident bytes for each record, including mapped files.
    pub bytes_per_entry: f64,
    /// Resident bytes for each record, without mapped files.
    pub own_bytes_per_entry: f64,
    /// Mean bytes of a record's key and value.
    pub key_and_value_bytes: f64,
    /// `bytes_per_entry` divided by `key_and_value_bytes`.
    pub ratio: f64,
}

/// Space of an engine whose records are all in files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Disk {
    /// Name of the engine.
    pub engine: String,
    /// Number of records.
    pub entries: u64,
    /// Bytes of file system blocks for each record.
    pub bytes_per_entry: f64,
}

/// Costs of a steady load for an engine: writes, space, and later reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Amplification {
    /// Name of the engine.
    pub engine: String,
    /// Bytes written for each byte changed, once the load has settled.
    pub ratio: f64,
    /// All bytes written, by the kernel's count.
    pub written_bytes: f64,
    /// All bytes of keys and values that were changed.
    pub changed_bytes: f64,
    /// Changes a second, until all of them are in files.
    pub ops_per_s: f64,
    /// Space of the files after the load.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub space: Option<Space>,
    /// Bytes read from the disk for each lookup, with no file in memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub read_bytes_per_lookup: Option<f64>,
    /// Number of changes for each record.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub changes_per_record: Option<f64>,
    /// Whether the cost of the last round is that of the round before. If not, the time was over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub is_settled: Option<bool>,
}

/// Space of files in relation to their contents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Space {
    /// `disk_bytes` divided by `live_bytes`.
    pub ratio: f64,
    /// Bytes of file system blocks.
    pub disk_bytes: f64,
    /// Bytes of the keys and values.
    pub live_bytes: f64,
}

/// babu's rate in one row, compared with the others'.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ratio {
    /// Name of the workload.
    pub workload: String,
    /// Where the records were.
    pub data: Data,
    /// babu's rate divided by that of RocksDB as tuned for metadata.
    pub rocksdb: Option<f64>,
    /// Comparison with RocksDB's fastest variant, the tuned one among them.
    pub best_rocksdb: Option<Against>,
    /// Comparison with the fastest other engine.
    pub best_other: Option<Against>,
}

/// A comparison with one engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Against {
    /// Name of the engine.
    pub engine: String,
    /// babu's rate divided by the engine's.
    pub ratio: f64,
}

/// A demand, and whether it is met.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bar {
    /// The demand in words.
    pub demand: String,
    /// The measured value.
    pub value: f64,
    /// The bound: the least value or the most, as the demand says.
    pub bar: f64,
    /// Whether the value meets the bound.
    pub met: bool,
    /// For a demand against RocksDB, the comparison with its fastest variant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best_variant: Option<Against>,
}

impl Results {
    /// Compares the results with the demands.
    pub fn judge(&mut self) {
        let mut bars = Vec::new();
        let ours = self.rows.iter().filter(|row| row.engine == OURS);
        self.ratios = ours.map(|row| self.ratio(row)).collect();
        for row in self.rows.iter().filter(|row| row.engine == OURS) {
            let name = format!("{} ({})", row.workload, row.data.name());
            let ratio = self.ratio(row);
            if let (Some(times), Some(value)) = (times_rocksdb(row), ratio.rocksdb) {
                let bar = at_least(format!("{name} / rocksdb"), value, times);
                bars.push(Bar { best_variant: ratio.best_rocksdb, ..bar });
            }
            if let Some(Against { engine, ratio }) = ratio.best_other.filter(|_| is_demanded(row)) {
                bars.push(at_least(format!("{name} / {engine}, the best other"), ratio, 1.0));
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

    /// Adds the results of another run, which measured other workloads.
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

    /// Prints the results to standard output.
    pub fn print(&self, json: bool) -> serde_json::Result<()> {
        match json {
            true => println!("{}", serde_json::to_string(self)?),
            false => print!("{}", self.table()),
        }
        Ok(())
    }

    /// The rate of an engine for the workload and data of `like`.
    fn rate(&self, like: &Row, engine: &str) -> Option<f64> {
        let same = |row: &&Row| row.is_like(like) && row.engine == engine;
        self.rows.iter().find(same).map(|row| row.ops_per_s)
    }

    /// Compares a row of babu with the other engines' rows.
    fn ratio(&self, ours: &Row) -> Ratio {
        let best = |is_meant: &dyn Fn(&str) -> bool| {
            let others = (self.rows.iter())
                .filter(|row| row.is_like(ours) && row.engine != OURS && is_meant(&row.engine));
            let best = others.max_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s))?;
            Some(Against { engine: best.engine.clone(), ratio: ours.ops_per_s / best.ops_per_s })
        };
        Ratio {
            workload: ours.workload.clone(),
            data: ours.data,
            rocksdb: self.rate(ours, BESIDE).map(|rate| ours.ops_per_s / rate),
            best_rocksdb: best(&|engine| engine.starts_with(BESIDE)),
            best_other: best(&|_| true),
        }
    }

    /// The results as text for people.
    pub fn table(&self) -> String {
        let mut out = format!("{}\nload {:.1} – {:.1}\n", self.machine, self.load[0], self.load[1]);
        let mut engines: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !engines.contains(&row.engine.as_str()) {
                engines.push(&row.engine);
            }
        }
        engines.sort_by_key(|engine| {
            let position = crate::store::Engine::all().iter().position(|e| e.name() == *engine);
            // Engines that this build does not have come last.
            position.unwrap_or(usize::MAX)
        });
        let _ = write!(out, "\n{:<28}", "operations/s");
        for engine in &engines {
            let _ = write!(out, "{engine:>15}");
        }
        out.push_str("     / rocksdb   / its best  / best other\n");
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
            if let Some(ours) = self.rows.iter().find(|row| row.is_like(like) && row.engine == OURS)
            {
                let Ratio { rocksdb, best_rocksdb, best_other, .. } = self.ratio(ours);
                let of = |against: Option<Against>| against.map(|against| against.ratio);
                for ratio in [rocksdb, of(best_rocksdb), of(best_other)] {
                    let text = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
                    let _ = write!(out, "{text:>13}");
                }
            }
            out.push('\n');
        }
        self.figures(&mut out);
        out
    }

    /// Appends the figures that are no rates, and the demands.
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
        for steady in &self.write_amplification {
            let _ = writeln!(out, "{}", steady.line());
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
            let _ = write!(out, "{verdict}  {:.2} (bar {:.2})  {}", bar.value, bar.bar, bar.demand);
            if let Some(Against { engine, ratio }) = &bar.best_variant {
                let _ = write!(out, "; {ratio:.2} / {engine}, the best of its ways");
            }
            out.push('\n');
        }
    }
}

impl Amplification {
    fn line(&self) -> String {
        let mut line = format!(
            "steady random load, {}: {} changes/s, {:.2} bytes written for each changed",
            self.engine,
            grouped(self.ops_per_s),
            self.ratio,
        );
        if let Some(space) = &self.space {
            let _ = write!(line, ", {:.2} bytes on disk for each stored", space.ratio);
        }
        if let Some(bytes) = self.read_bytes_per_lookup {
            let _ = write!(line, ", {} bytes read for a cold lookup", grouped(bytes));
        }
        if let Some(changes) = self.changes_per_record {
            let how = if self.is_settled == Some(true) { "settled" } else { "NOT settled" };
            let _ = write!(line, " ({how} after {changes:.1} changes for each record)");
        }
        line
    }
}

impl Row {
    fn is_like(&self, other: &Row) -> bool {
        self.workload == other.workload && self.data == other.data
    }
}

impl Data {
    /// Name in results.
    pub fn name(self) -> &'static str {
        match self {
            Data::Trees => "trees",
            Data::Mixed => "mixed",
        }
    }
}

/// The demanded multiple of RocksDB's rate, if there is a demand.
fn times_rocksdb(row: &Row) -> Option<f64> {
    let name = row.workload.as_str();
    match row.data {
        _ if name.contains("_fsync") || name == "create_during_checkpoint" => None,
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

/// Whether babu must be the fastest. A steady load is run for its costs, not its rate.
fn is_demanded(row: &Row) -> bool {
    row.workload != "steady"
}

fn at_least(demand: String, value: f64, bar: f64) -> Bar {
    Bar { demand, value, bar, met: value >= bar, best_variant: None }
}

fn at_most(demand: String, value: f64, bar: f64) -> Bar {
    Bar { demand, value, bar, met: value <= bar, best_variant: None }
}

/// Formats 1234567 as 1,234,567.
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
    fn rocksdb_is_compared_with_as_tuned_and_in_its_best_way() {
        let rows = vec![
            row("rocksdb-mmap", 150.0),
            row("babu", 600.0),
            row("rocksdb", 100.0),
            row("rocksdb-filter", 120.0),
            row("lmdb", 300.0),
        ];
        let mut results = Results { rows, ..Results::default() };
        results.judge();
        let [ratio] = &results.ratios[..] else { panic!("{:?}", results.ratios) };
        let of = |against: &Option<Against>| {
            against.as_ref().map(|against| (against.engine.clone(), against.ratio))
        };
        assert_eq!(ratio.rocksdb, Some(6.0));
        assert_eq!(of(&ratio.best_rocksdb), Some(("rocksdb-mmap".to_owned(), 4.0)));
        assert_eq!(of(&ratio.best_other), Some(("lmdb".to_owned(), 2.0)));
        let table = results.table();
        assert!(table.contains("6.00         4.00         2.00"), "{table}");
        let verdict = "met      6.00 (bar 5.00)  create_1m (trees) / rocksdb; 4.00 / rocksdb-mmap";
        assert!(table.contains(verdict), "{table}");
    }

    #[test]
    fn a_steady_load_is_told_with_what_it_costs_also_from_results_of_before() {
        let before = r#"{"engine":"lmdb","ratio":0.5,"written_bytes":1.0,"changed_bytes":2.0,"ops_per_s":1000.0}"#;
        let mut steady: Amplification = serde_json::from_str(before).unwrap();
        assert!(steady.line().ends_with("0.50 bytes written for each changed"));
        steady.space = Some(Space { ratio: 1.5, disk_bytes: 3.0, live_bytes: 2.0 });
        steady.read_bytes_per_lookup = Some(4500.4);
        steady.changes_per_record = Some(3.0);
        assert!(steady.line().ends_with("(NOT settled after 3.0 changes for each record)"));
        steady.is_settled = Some(true);
        let line = steady.line();
        assert!(line.contains("(settled after 3.0 changes"), "{line}");
        assert!(line.contains("1.50 bytes on disk for each stored"), "{line}");
        assert!(line.contains("4,500 bytes read for a cold lookup"), "{line}");
        let text = serde_json::to_string(&steady).unwrap();
        assert_eq!(serde_json::from_str::<Amplification>(&text).unwrap().line(), line);
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
