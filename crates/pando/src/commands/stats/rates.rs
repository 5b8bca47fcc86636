//! What a mount has done between two of its answers, as rates by its own clock.

use std::collections::BTreeMap;

use pando_types::histogram::percentile;
use serde::Serialize;

use crate::admin::protocol::MountStatus;
use crate::console::text::{bytes, count, time};

/// Kinds of requests that a line shows. Those of no kind are the last.
const KINDS: [(&str, &[&str]); 7] = [
    ("find", &["LOOKUP"]),
    ("stat", &["GETATTR", "ACCESS", "READLINK", "STATFS", "GETXATTR", "LISTXATTR"]),
    ("list", &["OPENDIR", "READDIR", "READDIRPLUS", "RELEASEDIR"]),
    ("make", &["CREATE", "MKNOD", "MKDIR", "SYMLINK", "LINK"]),
    ("drop", &["UNLINK", "RMDIR", "RENAME", "RENAME2"]),
    ("open", &["OPEN", "FLUSH", "RELEASE"]),
    ("data", &["READ", "WRITE", "FSYNC", "FSYNCDIR", "LSEEK", "FALLOCATE"]),
];

/// The names of the columns of [`Rates::line`].
pub const HEADING: &str = "  find   stat   list   make   drop   open   data   more      p50      \
                           p99  shards     own        read     written    unstored      memory \
                           waiting  lent";

/// What happened in a while, and how things are at its end.
#[derive(Serialize, PartialEq, Debug)]
pub struct Rates {
    /// Length of the while.
    seconds: f64,
    requests_per_second: BTreeMap<String, f64>,
    messages_per_second: BTreeMap<String, f64>,
    /// Messages that the mount answered itself.
    own_per_second: f64,
    read_bytes_per_second: f64,
    written_bytes_per_second: f64,
    /// Latencies by operation. `ALL` is of all of them.
    latencies: BTreeMap<String, Latency>,
    unstored_bytes: u64,
    lost_bytes: u64,
    memory_bytes: u64,
    known_inodes: u64,
    /// The mount's own counters, as `pando status` shows them.
    counters: BTreeMap<String, u64>,
}

/// Latencies of one operation, in nanoseconds, right to a factor of two.
#[derive(Clone, Copy, Serialize, PartialEq, Debug)]
struct Latency {
    count: u64,
    p50_nanos: u64,
    p99_nanos: u64,
}

impl Latency {
    fn of(counts: &[u64]) -> Option<Self> {
        let (p50_nanos, p99_nanos) = (percentile(counts, 50)?, percentile(counts, 99)?);
        Some(Self { count: counts.iter().sum(), p50_nanos, p99_nanos })
    }
}

impl Rates {
    /// What happened between two answers. Without an earlier one: since the mount began. An earlier
    /// answer of another process at this path counts as none.
    pub fn between(before: Option<&MountStatus>, now: &MountStatus) -> Self {
        let before = before.filter(|before| before.age_nanos <= now.age_nanos);
        let age = now.age_nanos - before.map_or(0, |before| before.age_nanos);
        // Two answers at one moment have no rate.
        let seconds = age.max(1) as f64 / 1e9;
        let rate = |of: fn(&MountStatus) -> u64| {
            of(now).saturating_sub(before.map_or(0, of)) as f64 / seconds
        };
        let rates = |of: fn(&MountStatus) -> &BTreeMap<String, u64>| {
            let one = |(name, total): (&String, &u64)| {
                let was = before.and_then(|before| of(before).get(name)).copied().unwrap_or(0);
                (name.clone(), total.saturating_sub(was) as f64 / seconds)
            };
            of(now).iter().map(one).collect()
        };
        Self {
            seconds,
            requests_per_second: rates(|it| &it.requests),
            messages_per_second: rates(|it| &it.messages),
            own_per_second: rate(own),
            read_bytes_per_second: rate(|it| it.read_bytes),
            written_bytes_per_second: rate(|it| it.written_bytes),
            latencies: latencies(before, now),
            unstored_bytes: now.dirty_bytes,
            lost_bytes: now.lost_bytes,
            memory_bytes: now.memory_bytes,
            known_inodes: now.known_inodes,
            counters: now.counters.clone(),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let of = |name: &str| self.requests_per_second.get(name).copied().unwrap_or(0.0);
        let mut more: f64 = self.requests_per_second.values().sum();
        let mut cells = Vec::new();
        for (_, names) in KINDS {
            let rate: f64 = names.iter().map(|name| of(name)).sum();
            more -= rate;
            cells.push(format!("{:>6}", whole(rate)));
        }
        cells.push(format!("{:>6}", whole(more)));
        let all = self.latencies.get("ALL");
        let at = |of: fn(&Latency) -> u64| all.map_or_else(|| "-".to_owned(), |it| time(of(it)));
        cells.push(format!("{:>8} {:>8}", at(|it| it.p50_nanos), at(|it| it.p99_nanos)));
        let messages = whole(self.messages_per_second.values().sum());
        cells.push(format!("{messages:>7} {:>7}", whole(self.own_per_second)));
        let sizes = [
            self.read_bytes_per_second as u64,
            self.written_bytes_per_second as u64,
            self.unstored_bytes,
            self.memory_bytes,
        ];
        cells.extend(sizes.map(|size| format!("{:>11}", bytes(size))));
        let counter = |name: &str| self.counters.get(name).copied().unwrap_or(0);
        let (waiting, lent) = (count(counter("pending")), count(counter("lent_parts")));
        cells.push(format!("{waiting:>7} {lent:>5}"));
        cells.join(" ")
    }
}

/// Messages that the mount answered itself, since it began.
fn own(status: &MountStatus) -> u64 {
    let of = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    of("lent_answered") + of("remembered")
}

fn latencies(before: Option<&MountStatus>, now: &MountStatus) -> BTreeMap<String, Latency> {
    let mut all = Vec::new();
    let mut found = BTreeMap::new();
    for (name, totals) in &now.latencies {
        let was = before.and_then(|before| before.latencies.get(name));
        let since = |(at, total): (usize, &u64)| {
            total.saturating_sub(was.and_then(|was| was.get(at)).copied().unwrap_or(0))
        };
        let counts: Vec<u64> = totals.iter().enumerate().map(since).collect();
        all.resize(all.len().max(counts.len()), 0);
        all.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
        found.extend(Latency::of(&counts).map(|latency| (name.clone(), latency)));
    }
    found.extend(Latency::of(&all).map(|latency| ("ALL".to_owned(), latency)));
    found
}

fn whole(rate: f64) -> String {
    count(rate.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(age: u64, creates: u64, counts: &[u64]) -> MountStatus {
        serde_json::from_value(json!({
            "path": "/m", "known_inodes": 1, "dirty_bytes": 5, "lost_bytes": 0,
            "requests": {"CREATE": creates, "NEWER": 7}, "messages": {"Create": creates},
            "counters": {"lent_answered": creates, "remembered": creates, "pending": 2},
            "age_nanos": age, "read_bytes": creates << 20, "latencies": {"CREATE": counts},
        }))
        .unwrap()
    }

    #[test]
    fn rates_are_of_the_time_between_two_answers_by_the_clock_of_the_mount() {
        let (first, second) =
            (status(4_000_000_000, 8, &[0, 8]), status(6_000_000_000, 12, &[0, 8, 3, 1]));
        let since_begin = Rates::between(None, &first);
        assert_eq!(since_begin.requests_per_second["CREATE"], 2.0);
        let rates = Rates::between(Some(&first), &second);
        assert_eq!(rates.seconds, 2.0);
        assert_eq!(rates.requests_per_second["CREATE"], 2.0);
        assert_eq!(rates.requests_per_second["NEWER"], 0.0);
        assert_eq!(rates.own_per_second, 4.0);
        assert_eq!(rates.read_bytes_per_second, f64::from(2 << 20));
        // The eight fast ones were before.
        let latency = Latency { count: 4, p50_nanos: 4, p99_nanos: 8 };
        assert_eq!(rates.latencies["CREATE"], latency);
        assert_eq!(rates.latencies["ALL"], latency);
        // Another process has mounted here meanwhile.
        assert_eq!(Rates::between(Some(&second), &first), since_begin);
    }

    #[test]
    fn a_line_has_what_the_heading_names_below_its_names() {
        let line = Rates::between(None, &status(1_000_000_000, 1_234, &[0, 1])).line();
        let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(HEADING.split_whitespace().take(7).collect::<Vec<_>>(), names);
        assert_eq!(line.chars().count(), HEADING.chars().count(), "{HEADING}\n{line}");
        let ends = |text: &str, word: &str| text.find(word).map(|at| at + word.len());
        assert_eq!(ends(&line, "1,234"), ends(HEADING, "make"), "{HEADING}\n{line}");
        assert_eq!(ends(&line, " 7 "), ends(HEADING, "more "), "{HEADING}\n{line}");
        assert!(line.ends_with("      2     0"), "{line}");
    }
}
