//! The table "Cost of Splitting" of GIGA+'s poster: the work that splitting does a second time.
//!
//! The poster measures "the number of redundant creates as a fraction increase on the number of
//! requested creates". A split creates an entry anew in the other partition. The prototype stored
//! partitions as directories, so a split always moved half of one, even within its server. In
//! Pando, a split within a shard moves nothing. So this table also has the entries and bytes that
//! cross servers.
//!
//! The poster's heading says 10³ and 10⁴ files for each server. But eight servers with 10³ files
//! each have only as many as one partition of 8K, which never splits. The poster has 75.2 % there.
//! All its cells match 10⁴ and 10⁵ files, so these come first.

use serde::Serialize;
use serde_json::json;

use super::directory::{Directory, Rules, any_order};
use super::figure::{Figure, Nature, Table, percent, whole};

/// "Entries per partition": 1K, 8K, 24K.
pub const THRESHOLDS: [u64; 3] = [1_000, 8_000, 24_000];
/// Numbers of servers.
pub const SERVERS: [u16; 3] = [8, 16, 32];
/// Files for each server: first those that match the poster's values, then its heading's first
/// value.
pub const FILES: [u64; 3] = [10_000, 100_000, 1_000];
/// The poster's table in percent: by threshold, then by servers, then by its two columns.
const POSTER: [[[f64; 2]; 3]; 3] = [
    [[78.2, 64.4], [80.4, 64.8], [75.8, 64.2]],
    [[75.2, 61.8], [76.8, 63.8], [71.1, 62.9]],
    [[46.2, 91.1], [51.2, 93.4], [56.2, 92.1]],
];

/// Encoded sizes of messages in bytes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bytes {
    /// Request and reply of a create.
    pub create: f64,
    /// One entry in a page of a split, with its share of the frame and of the answer.
    pub moved_entry: f64,
}

/// One cell of the table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Number of entries above which a partition splits.
    pub threshold: u64,
    /// Number of servers.
    pub servers: u16,
    /// Number of files for each server.
    pub files_each: u64,
    /// Number of partitions at the end.
    pub partitions: usize,
    /// The poster's value as a share. `None`: the poster has no such cell.
    pub poster: Option<f64>,
    /// The poster's measure: entries that changed their partition, as a share of the files.
    pub rehashed: f64,
    /// Entries that changed their server, as a share of the files.
    pub moved: f64,
    /// As `moved`, if splitting stops at one partition on each server.
    pub moved_by_default: f64,
    /// Bytes of split pages for each byte of creates, if splitting never stops.
    pub bytes: f64,
    /// As `bytes`, if splitting stops at one partition on each server.
    pub bytes_by_default: f64,
}

/// All cells of the table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Redundant {
    /// The sizes of messages from which `bytes` follow.
    pub bytes_of: Bytes,
    /// Ordered by files, threshold and servers.
    pub cells: Vec<Cell>,
}

/// Computes all cells.
#[must_use]
pub fn run(bytes_of: Bytes, seed: u64) -> Redundant {
    let mut cells = Vec::new();
    for (files_each, column) in FILES.into_iter().zip(0..) {
        for (threshold, line) in THRESHOLDS.into_iter().zip(0..) {
            for (servers, block) in SERVERS.into_iter().zip(0..) {
                let files = files_each * u64::from(servers);
                let grown = |per_server| {
                    let rules = Rules { servers, per_server, threshold, is_jittered: false };
                    grown(rules, files, seed)
                };
                let (continuous, default) = (grown(u16::MAX), grown(1));
                let share = |entries: u64| entries as f64 / files as f64;
                let (all, one) = (continuous.moved, default.moved);
                let ratio = bytes_of.moved_entry / bytes_of.create;
                cells.push(Cell {
                    threshold,
                    servers,
                    files_each,
                    partitions: continuous.partitions(),
                    poster: (column < 2).then(|| POSTER[line][block][column] / 100.0),
                    rehashed: share(all.entries_here + all.entries_away),
                    moved: share(all.entries_away),
                    moved_by_default: share(one.entries_away),
                    bytes: share(all.entries_away) * ratio,
                    bytes_by_default: share(one.entries_away) * ratio,
                });
            }
        }
    }
    Redundant { bytes_of, cells }
}

/// A directory that grows to `files` files. It stops early once no partition can split, since no
/// entry moves after that.
fn grown(rules: Rules, files: u64, seed: u64) -> Directory {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut directory = Directory::new(rules);
    for _ in 0..files {
        if directory.is_full_grown() {
            break;
        }
        let order = any_order(&mut rng);
        directory.create(order, &mut rng);
    }
    directory
}

impl Redundant {
    /// The cells as a figure with a table.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let heading = [
            "files each",
            "entries per partition",
            "servers",
            "poster",
            "its measure",
            "moved between servers",
            "in bytes",
            "default policy: moved",
            "in bytes",
        ];
        let mut table = Table::new(
            format!(
                "redundant creates, % of requested ones, splitting for ever; bytes of pages, % of bytes of creates (a create {} B, a \
                 moved entry {} B)",
                whole(self.bytes_of.create),
                whole(self.bytes_of.moved_entry)
            ),
            heading,
        );
        for cell in &self.cells {
            table.row([
                whole(cell.files_each as f64),
                whole(cell.threshold as f64),
                cell.servers.to_string(),
                cell.poster.map_or("–".to_owned(), percent),
                percent(cell.rehashed),
                percent(cell.moved),
                percent(cell.bytes),
                percent(cell.moved_by_default),
                percent(cell.bytes_by_default),
            ]);
        }
        Figure {
            name: "poster-table".to_owned(),
            title: "cost of splitting (the poster's table)".to_owned(),
            nature: Nature::Computed,
            tables: vec![table],
            same: format!(
                "by the poster's measure all 18 cells come out, {:.1} points off at most, if its columns are 10⁴ and 10⁵ files a server",
                self.worst_difference() * 100.0
            ),
            different: "the columns are headed 10³ and 10⁴ there, with which 8 servers would never split a partition of 8K; and here a split \
                        within a server copies nothing, so that what is done twice is what moves between servers"
                .to_owned(),
            data: json!(self),
            charts: Vec::new(),
        }
    }

    /// The largest difference between the poster's values and ours by its measure, as a share.
    #[must_use]
    pub fn worst_difference(&self) -> f64 {
        let off = |cell: &Cell| Some((cell.rehashed - cell.poster?).abs());
        self.cells.iter().filter_map(off).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Bytes = Bytes { create: 200.0, moved_entry: 100.0 };

    /// Our cells are close to the poster's. Its 1K may be 1,000 or 1,024, and it shows a single
    /// run. For a power of two of servers, "splitting network traffic becomes zero" once each has a
    /// partition.
    #[test]
    fn the_posters_cells_are_those_of_ten_times_its_headings() {
        let all = run(BYTES, 1);
        assert_eq!(all.cells.len(), 27);
        assert!(all.worst_difference() < 0.08, "{}", all.worst_difference());
        let never =
            |cell: &&Cell| cell.files_each == 1_000 && cell.threshold >= 8_000 && cell.servers == 8;
        assert!(all.cells.iter().filter(never).all(|cell| cell.partitions == 1));
        for cell in &all.cells {
            assert!(cell.moved <= cell.rehashed && cell.moved_by_default <= cell.moved + 0.01);
            assert!((cell.bytes - cell.moved / 2.0).abs() < 1e-9);
            if cell.files_each == 100_000 && cell.threshold == 1_000 {
                assert!(cell.moved < 0.006 && cell.rehashed > 0.6, "{cell:?}");
            }
        }
    }
}
