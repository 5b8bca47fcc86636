//! Judges the shards' own tables, against each other and against the rows that they refer to.

use pando_core::Write;
use pando_core::keys::{self, Kind, Table};
use pando_core::record::{Entry, Numbers, OpenAt, Record, Stat};
use pando_types::peer::EntryValue;
use pando_types::{Ino, Order, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::words::ino_words;
use crate::judge::judgement::Judge;
use crate::learned::tables::OpenSeen;
use crate::lookup::locate::Spot;
use crate::rows::cursor;
use crate::rows::mode::Mode;
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

/// A counter of inos is raised to what is in use only below this limit, so that numbers do not run
/// out. A higher number was never given: it is itself the fault.
const INOS_MAX: u64 = 1 << (Ino::COUNTER_BITS - 1);
/// A counter of transactions is raised only below this limit.
const TXNS_MAX: u64 = 1 << 62;

fn counter_of(ino: Ino) -> u64 {
    ino.0 & ((1 << Ino::COUNTER_BITS) - 1)
}

/// The highest ino in use of each allocator, if the allocator has not given it.
pub fn beyond_counters(sweep: &Sweep<'_>) -> Vec<Ino> {
    let highest = sweep.inos.highest().iter().filter(|(allocator, highest)| {
        let is_shard = allocator.0 < sweep.volume.map.shards;
        match sweep.tables.numbers.get(allocator) {
            // The root's number is below the first that is given.
            Some((_, numbers)) => **highest >= numbers.inos,
            // A missing counter is a finding of its own.
            None => !is_shard,
        }
    });
    highest.map(|(allocator, highest)| Ino::new(*allocator, *highest)).collect()
}

impl Judge<'_, '_> {
    /// Checks that each open inode is where its open record says.
    pub(crate) fn opens(&mut self) -> Result<(), String> {
        let opens = &self.sweep.tables.opens;
        for OpenSeen { shard, ino, at, row: (key, value) } in opens {
            let (row, place, path) = match at {
                OpenAt::Name(dir, order) => {
                    let there = keys::dir(*dir, Kind::Entry, *order);
                    let bytes = cursor::get(self.probe.rows, *shard, &there)?;
                    let entry = bytes.as_deref().map(Entry::decode);
                    // An entry that cannot be read may be the right one.
                    let Ok(entry) = entry.transpose() else { continue };
                    let is = entry.and_then(|entry| entry.is);
                    if matches!(&is, Some((_, EntryValue::File(inode))) if inode.attr.ino == *ino) {
                        continue;
                    }
                    let path = is.map(|(name, _)| At::Name(*dir, name.as_bytes().to_vec()));
                    let row = Evidence::row(*shard, &there, bytes.as_deref());
                    (row, Place::Name(*dir, Order(*order).base().0), path)
                }
                OpenAt::Link => {
                    let there = keys::link(*ino, Kind::Entry);
                    let bytes = cursor::get(self.probe.rows, *shard, &there)?;
                    if self.probe.volume.map.link(*ino) == *shard && bytes.is_some() {
                        continue;
                    }
                    let row = Evidence::row(*shard, &there, bytes.as_deref());
                    (row, Place::Link(*ino), None)
                }
            };
            let detail = match at {
                OpenAt::Name(dir, order) => {
                    format!("it is said to be in the entry at order {order:#x} of directory {dir}")
                }
                OpenAt::Link => "it is said to be at its link shard".to_owned(),
            };
            let mut finding = Finding::new(Code::OpenWithoutInode, *shard, ino_words(*ino), detail)
                .known_by(Evidence::row(*shard, key, Some(value)))
                .known_by(row)
                .under(place)
                .under(Place::Link(*ino))
                .mended_by(*shard, vec![Write::Delete(key.clone())]);
            finding.at = path;
            self.found.push(finding);
        }
        Ok(())
    }

    /// Checks that the counters of shards have given all numbers in use.
    pub(crate) fn counters(&mut self, beyond: &[Ino]) -> Result<(), String> {
        for ino in beyond {
            self.beyond_counter(*ino)?;
        }
        let tables = &self.sweep.tables;
        for (coordinator, (reached, row)) in &tables.txns {
            let Some(((key, value), numbers)) = tables.numbers.get(coordinator) else { continue };
            if *reached <= numbers.txns {
                continue;
            }
            let what = format!("transaction {coordinator}.{}", reached - 1);
            let detail = format!("shard {coordinator} has given numbers below {}", numbers.txns);
            let code = Code::TransactionBeyondCounter;
            let mut finding = Finding::new(code, *coordinator, what, detail)
                .known_by(row.clone())
                .known_by(Evidence::row(*coordinator, key, Some(value)));
            if *reached < TXNS_MAX {
                let right = Numbers { txns: *reached, ..*numbers }.encode();
                let put = Write::Put(key.clone(), right);
                finding = finding.mended_by(*coordinator, vec![put]);
            }
            self.found.push(finding);
        }
        Ok(())
    }

    /// Reports the highest number in use of an allocator, which has not given it.
    fn beyond_counter(&mut self, ino: Ino) -> Result<(), String> {
        let (allocator, counter) = (ino.allocator(), counter_of(ino));
        let mut finding = match self.sweep.tables.numbers.get(&allocator) {
            None => {
                let detail =
                    format!("shard {allocator}, which would have given it, does not exist");
                Finding::new(Code::InoBeyondCounter, ShardIndex(0), ino_words(ino), detail)
            }
            Some(((key, value), numbers)) => {
                let detail = format!("shard {allocator} has given counters below {}", numbers.inos);
                let finding =
                    Finding::new(Code::InoBeyondCounter, allocator, ino_words(ino), detail)
                        .known_by(Evidence::row(allocator, key, Some(value)));
                if counter < INOS_MAX {
                    let right = Numbers { inos: counter + 1, ..*numbers }.encode();
                    finding.mended_by(allocator, vec![Write::Put(key.clone(), right)])
                } else {
                    finding
                }
            }
        };
        match self.located.inos.get(&ino).and_then(|spots| spots.first()).cloned() {
            Some(Spot::Directory(dir)) => finding.at = Some(At::Dir(dir)),
            Some(Spot::Entry { shard, dir, order }) => {
                let key = keys::dir(dir, Kind::Entry, order);
                if let Some(seen) = self.probe.record::<Entry>(shard, key)? {
                    finding = finding.known_by(seen.evidence());
                    let is = seen.record.is;
                    finding.at = is.map(|(name, _)| At::Name(dir, name.as_bytes().to_vec()));
                }
            }
            None => {}
        }
        self.found.push(finding);
        Ok(())
    }

    /// Checks that no partition arrives on a shard that already owns some of its names.
    pub(crate) fn arrivals(&mut self) {
        for (shard, dir, orders) in &self.sweep.busy.arriving {
            for part in self.sweep.tree.parts_of(*dir) {
                let owned = pando_placement::range(part.partition, part.radix);
                if part.shard != *shard || owned.start >= orders.end || orders.start >= owned.end {
                    continue;
                }
                let partition = pando_placement::partition_of(
                    pando_placement::hash_of_order(Order(orders.start)),
                    pando_types::Radix::MAX,
                );
                let key = keys::arrival(*dir, partition);
                let Ok(Some(value)) = cursor::get(self.probe.rows, *shard, &key) else {
                    continue;
                };
                let what = format!("partition {partition} of directory {dir}, on its way");
                let detail = format!("shard {shard} has partition {} already", part.partition);
                let header = keys::dir(*dir, Kind::Header, part.start);
                let Ok(Some(bytes)) = cursor::get(self.probe.rows, *shard, &header) else {
                    continue;
                };
                let mut finding = Finding::new(Code::ArrivalInPartition, *shard, what, detail)
                    .at(At::Dir(*dir))
                    .known_by(Evidence::row(*shard, &key, Some(&value)))
                    .known_by(Evidence::row(*shard, &header, Some(&bytes)));
                // The split is not decided. Undoing it would clear rows that the shard owns, so
                // only its record is deleted.
                if owned.start <= orders.start && orders.end <= owned.end {
                    finding = finding.mended_by(*shard, vec![Write::Delete(key)]);
                }
                self.found.push(finding);
            }
        }
    }
}

/// Checks the counts of each shard for `df`. They are judged only if nothing else is wrong and
/// nothing changes.
pub fn usage(sweep: &Sweep<'_>, mode: Mode) -> Vec<Finding> {
    let mut found = Vec::new();
    if mode == Mode::Running {
        return found;
    }
    for (shard, (inodes, bytes)) in &sweep.usage {
        let key = keys::table(Table::Stat);
        let seen = sweep.tables.stats.get(shard);
        let stat = seen.map(|(_, stat)| *stat).unwrap_or_default();
        if (stat.inodes, stat.bytes) == (*inodes, *bytes) {
            continue;
        }
        let what = "the count of files and bytes".to_owned();
        let detail = format!(
            "it says {} files and {} bytes; there are {inodes} and {bytes}",
            stat.inodes, stat.bytes
        );
        let value = seen.map(|((_, value), _)| value.as_slice());
        let right = Stat { inodes: *inodes, bytes: *bytes }.encode();
        found.push(
            Finding::new(Code::WrongUsage, *shard, what, detail)
                .known_by(Evidence::row(*shard, &key, value))
                .mended_by(*shard, vec![Write::Put(key, right)]),
        );
    }
    found
}
