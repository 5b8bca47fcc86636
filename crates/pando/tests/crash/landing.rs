//! Where a kill landed. This is known from the process's own counters in its last moments, from the
//! files that it left, and from what the next process found unfinished.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::common::Volume;

#[derive(Default, Debug)]
pub struct Landings {
    pub in_splits: u64,
    pub in_renames: u64,
    pub in_checkpoints: u64,
    /// Number of shards that had more than one index file after a kill.
    unfinished_indexes: u64,
    /// Decided transactions and prepared steps that the next process found.
    pub recovered: u64,
    /// Half-copied partitions that the next process found.
    recovered_arrivals: u64,
}

/// The kinds of work that are running at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    split: bool,
    rename: bool,
    checkpoint: bool,
}

impl Landings {
    /// Waits until `until`. In three rounds of four it then waits, for 300 ms at most, until a
    /// split, a rename or a checkpoint runs. Returns what ran at the last look.
    pub fn await_moment(&self, volume: &Volume, round: u64, until: Instant) -> Moment {
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let begun = Instant::now();
        let Ok(stream) = UnixStream::connect(volume.folder.join("run/admin.sock")) else {
            return Moment::default();
        };
        let mut reader = BufReader::new(&stream);
        loop {
            let Some(moment) = look(&stream, &mut reader) else { return Moment::default() };
            let wanted = match round % 4 {
                0 => true,
                1 => moment.split,
                2 => moment.rename,
                _ => moment.checkpoint,
            };
            if wanted || begun.elapsed().as_millis() > 300 {
                return moment;
            }
        }
    }

    pub fn count(&mut self, moment: Moment) {
        self.in_splits += u64::from(moment.split);
        self.in_renames += u64::from(moment.rename);
        self.in_checkpoints += u64::from(moment.checkpoint);
    }

    pub fn count_unfinished_indexes(&mut self, folder: &Path) {
        for shard in 0..4 {
            let list = fs::read_dir(folder.join(format!("shard-{shard:04}"))).unwrap();
            let names = list.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let indexes = names.filter(|name| name.starts_with("idx-")).count();
            self.unfinished_indexes += u64::from(indexes > 1);
        }
    }

    pub fn count_recovered(&mut self, volume: &Volume) {
        let status = volume.status();
        for shard in status["shards"].as_array().unwrap() {
            let counter = |name: &str| shard["counters"][name].as_u64().unwrap_or(0);
            self.recovered += counter("shard_recovered_decided");
            self.recovered += counter("shard_recovered_prepared");
            self.recovered_arrivals += counter("shard_recovered_arrivals");
        }
    }
}

fn look(stream: &UnixStream, reader: &mut impl BufRead) -> Option<Moment> {
    let mut stream = stream;
    stream.write_all(b"{\"command\":\"status\"}\n").ok()?;
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let answer: Value = serde_json::from_str(&line).ok()?;
    let mut moment = Moment::default();
    for shard in answer["ok"]["status"]["shards"].as_array()? {
        let counter = |name: &str| shard["counters"][name].as_u64().unwrap_or(0);
        moment.split |= counter("shard_split_alive") > 0;
        moment.rename |= counter("shard_rename_alive") + counter("shard_rename_dir_alive") > 0;
        moment.checkpoint |= counter("checkpoints_begun") > counter("checkpoints");
    }
    Some(moment)
}
