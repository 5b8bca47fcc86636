//! A disk that works until it is told to fail: syncs, single writes, or reads of some blocks of
//! index files, which fail or give wrong bytes.
//!
//! The store and the shell decide what follows from an error. This module only notes which kinds of
//! errors they got.

use std::io;
use std::sync::{Arc, Mutex};

use babu::{Appender, Disk, DiskFile, MemDisk};

use crate::base::lock::lock;
use crate::counts::disks::FlawCounts;

/// Size of the pieces of an index file that can be read or not, bytes.
const PIECE: u64 = 512;
/// One in this many pieces is bad.
const UNREADABLE_OF: u64 = 4;

/// The faults of a disk, and their effects so far.
#[derive(Default, Debug)]
pub struct Flaws {
    /// Whether the next sync of a file fails.
    pub fail_sync: bool,
    /// Which pieces of index files are bad, as a salt of a hash; `None`: all are good. With an even
    /// salt, bad pieces cannot be read. With an odd one, each has a flipped bit.
    pub unreadable: Option<u64>,
    /// Whether a write or a sync of the log has failed in this life of the process. Nothing more
    /// may be written to that log.
    is_log_lost: bool,
    /// Whether the log was written or synced after that.
    pub is_log_used: bool,
    /// Whether an operation has failed in this life of the process.
    pub has_failed: bool,
    /// Whether pieces were bad when the process started.
    pub was_unreadable: bool,
    /// Counts of failed operations.
    pub counts: FlawCounts,
}

impl Flaws {
    /// A process starts on this disk.
    pub fn begin(&mut self) {
        (self.is_log_lost, self.is_log_used, self.has_failed) = (false, false, false);
        self.was_unreadable = self.unreadable.is_some();
    }

    fn note_change<T>(&mut self, name: &str, disk: &MemDisk, result: &io::Result<T>, need: Need) {
        let is_log = need == Need::ByLog && name.starts_with("log-");
        if disk.has_stopped() {
            return;
        }
        self.is_log_used |= is_log && self.is_log_lost;
        let Err(error) = result else { return };
        if error.kind() == io::ErrorKind::StorageFull {
            self.counts.full += 1;
            return;
        }
        self.has_failed = true;
        self.is_log_lost |= is_log;
        self.counts.writes += 1;
        self.counts.log_writes += u64::from(is_log);
    }

    /// What is wrong with bytes of a file.
    fn damage(&self, name: &str, offset: u64, len: u64) -> Damage {
        let salt = match self.unreadable {
            Some(salt) if name.starts_with("idx-") => salt,
            _ => return Damage::Nothing,
        };
        let name = name.bytes().fold(salt, |hash, byte| mix(hash ^ u64::from(byte)));
        let last = (offset + len.max(1) - 1) / PIECE;
        let bad = (offset / PIECE..=last)
            .map(|piece| (piece, mix(name ^ piece)))
            .filter(|(_, hash)| hash.is_multiple_of(UNREADABLE_OF));
        if salt % 2 == 0 {
            return if bad.count() > 0 { Damage::NotRead } else { Damage::Nothing };
        }
        let bits =
            bad.map(|(piece, hash)| (piece * PIECE + (hash >> 8) % PIECE, 1 << (hash >> 61)));
        let inside = bits.filter(|(at, _)| (offset..offset + len).contains(at));
        Damage::Flipped(inside.collect())
    }
}

/// Whether a log is incomplete without a change of its file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    ByLog,
    ByNone,
}

/// What is wrong with bytes that are read.
enum Damage {
    Nothing,
    /// They cannot be read.
    NotRead,
    /// At these places of the file, these bits are wrong.
    Flipped(Vec<(u64, u8)>),
}

const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// A disk with faults.
#[derive(Clone)]
pub struct Flawed {
    disk: MemDisk,
    flaws: Arc<Mutex<Flaws>>,
}

struct FlawedFile {
    name: String,
    file: Box<dyn DiskFile>,
    on: Flawed,
}

struct FlawedAppender {
    name: String,
    appender: Box<dyn Appender>,
    on: Flawed,
}

impl Flawed {
    /// This disk, with these faults.
    #[must_use]
    pub const fn new(disk: MemDisk, flaws: Arc<Mutex<Flaws>>) -> Self {
        Self { disk, flaws }
    }

    fn noted<T>(&self, name: &str, result: io::Result<T>) -> io::Result<T> {
        lock(&self.flaws).note_change(name, &self.disk, &result, Need::ByNone);
        result
    }

    /// Notes the result of a change without which the log is incomplete.
    fn noted_of_log<T>(&self, name: &str, result: io::Result<T>) -> io::Result<T> {
        lock(&self.flaws).note_change(name, &self.disk, &result, Need::ByLog);
        result
    }

    fn wrap(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FlawedFile { name: name.to_owned(), file, on: self.clone() })
    }
}

impl Disk for Flawed {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(name, self.noted(name, self.disk.create(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(name, self.disk.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.noted(name, self.disk.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.noted(from, self.disk.rename(from, to))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.noted("", self.disk.sync_dir())
    }
}

impl DiskFile for FlawedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.on.noted_of_log(&self.name, self.file.write_at(offset, bytes))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let flaws = &mut lock(&self.on.flaws);
        match flaws.damage(&self.name, offset, buffer.len() as u64) {
            Damage::Nothing => self.file.read_at(offset, buffer),
            Damage::NotRead => {
                flaws.has_failed = true;
                flaws.counts.reads += 1;
                Err(io::Error::other("the simulated disk cannot read these bytes"))
            }
            Damage::Flipped(bits) => {
                self.file.read_at(offset, buffer)?;
                flaws.has_failed |= !bits.is_empty();
                flaws.counts.flipped += bits.len() as u64;
                for (at, bit) in bits {
                    buffer[(at - offset) as usize] ^= bit;
                }
                Ok(())
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync(&self) -> io::Result<()> {
        let is_to_fail = std::mem::take(&mut lock(&self.on.flaws).fail_sync);
        if is_to_fail && !self.on.disk.has_stopped() {
            self.on.disk.fail_sync();
        }
        let result = self.file.sync();
        if self.on.disk.has_stopped() {
            return result;
        }
        let flaws = &mut lock(&self.on.flaws);
        let is_log = self.name.starts_with("log-");
        flaws.is_log_used |= is_log && flaws.is_log_lost;
        if result.is_err() {
            flaws.has_failed = true;
            flaws.is_log_lost |= is_log;
            flaws.counts.syncs += 1;
            flaws.counts.log_syncs += u64::from(is_log);
        }
        result
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.on.noted(&self.name, self.file.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.on.noted(&self.name, self.file.allocate(len))
    }

    fn appender(&self) -> Option<Box<dyn Appender>> {
        let appender = self.file.appender()?;
        Some(Box::new(FlawedAppender { name: self.name.clone(), appender, on: self.on.clone() }))
    }
}

impl Appender for FlawedAppender {
    fn append(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.on.noted_of_log(&self.name, self.appender.append(offset, bytes))
    }

    fn synced(&mut self) {
        self.appender.synced();
    }
}

/// A passing fault of a disk.
#[derive(Default, Debug)]
pub struct Trouble {
    /// Number of the fault. Only the event with this number ends it.
    pub(crate) nth: u64,
    /// Whether syncs take long.
    pub is_slow: bool,
    /// Whether the disk has no room.
    pub is_full: bool,
}
