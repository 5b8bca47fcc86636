//! Appending to a preallocated file through shared memory.
//!
//! A `pwrite` of a group costs 0.9 µs on the machine measured. A copy into pages of the file costs
//! 0.06 µs, including the cost of the pages (groups of 176 bytes, ext4, 2 CPUs). Both leave the
//! bytes with the kernel. They survive the death of the process, and a sync of the file makes them
//! durable.
//!
//! The pages are the main cost. A fault in preallocated space reads the page, which is empty, and
//! then asks the file system for permission to write it. That costs 3.9 µs a page, or 0.17 a group.
//! For a long group that is more than twice the cost of a `pwrite`. Zeros written ahead bring in a
//! stretch of pages at once: 1.7 µs a page. (Stretches of 16 KiB cost 3.7. Above 64 KiB the cost
//! depends on the place in memory, and a sync would write more unused pages.)
//!
//! A copy to a page that cannot be had is a signal, not an error. So:
//!
//! 1. Mappings are used only on file systems where preallocated space is a promise, and only below
//!    the file's length.
//! 2. Pages are made ready for writing (`MADV_POPULATE_WRITE`) before they are written, a step
//!    ahead. This is done again after each sync, which leaves them clean. The call reports what
//!    would have been a signal. Then the bytes go through ordinary writes, which report the error.
//! 3. Zeros are written only after all appended bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use memmap2::{Advice, MmapMut, MmapOptions};

use crate::disk::traits::Appender;

/// Bytes that are mapped at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes that are made ready at a time, from one multiple to the next. This takes some 30 µs.
const STEP_BYTES: u64 = 64 << 10;
const PAGE_BYTES: u64 = 4096;

static ZEROS: [u8; STEP_BYTES as usize] = [0; STEP_BYTES as usize];

/// True if writes to preallocated space cannot fail for want of room on the file system of `file`:
/// ext2–4, XFS, tmpfs.
#[allow(clippy::unnecessary_cast, reason = "the type is another on other architectures")]
fn keeps_promises(file: &File) -> bool {
    const KNOWN: [i64; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];
    rustix::fs::fstatfs(file).is_ok_and(|facts| KNOWN.contains(&(facts.f_type as i64)))
}

pub(crate) struct Mapped {
    file: Arc<File>,
    window: Option<Window>,
    /// Below this offset no window is tried, as an attempt has failed.
    ordinary_until: u64,
    /// Offset up to which pages have been brought in.
    zeroed_until: u64,
}

impl Mapped {
    /// `None` if this file is better written by ordinary writes.
    pub(crate) fn new(file: &Arc<File>) -> Option<Mapped> {
        keeps_promises(file).then(|| Mapped {
            file: file.clone(),
            window: None,
            ordinary_until: 0,
            zeroed_until: 0,
        })
    }

    /// Copies as many bytes as one window takes, and returns their number. `None` if no window can
    /// be had.
    fn copy(&mut self, offset: u64, bytes: &[u8]) -> Option<usize> {
        if offset < self.ordinary_until {
            return None;
        }
        if !self.window.as_ref().is_some_and(|window| window.holds(offset)) {
            // Drop the old window first: that gives its memory back.
            self.window = None;
            self.window = Window::open(&self.file, offset);
        }
        let window = self.window.as_mut()?;
        let end = window.end().min(offset + bytes.len() as u64);
        if !window.is_ready(offset, end) {
            let until = end.next_multiple_of(STEP_BYTES).min(window.end());
            // The first page may hold bytes that were appended before.
            let from = offset.next_multiple_of(PAGE_BYTES).max(self.zeroed_until);
            bring_in(&self.file, from, until)?;
            self.zeroed_until = self.zeroed_until.max(until);
            window.make_ready(offset, until)?;
        }
        Some(window.copy(offset, end, bytes))
    }
}

/// Brings pages of zeros into memory, to be overwritten. `None` if that fails.
fn bring_in(file: &File, mut from: u64, until: u64) -> Option<()> {
    while from < until {
        let len = (until - from).min(STEP_BYTES - from % STEP_BYTES);
        file.write_all_at(&ZEROS[..len as usize], from).ok()?;
        from += len;
    }
    Some(())
}

impl Appender for Mapped {
    fn append(&mut self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some(count) = self.copy(offset, bytes) else {
                self.window = None;
                self.ordinary_until = self.ordinary_until.max(offset + WINDOW_BYTES);
                return self.file.write_all_at(bytes, offset);
            };
            offset += count as u64;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn synced(&mut self) {
        if let Some(window) = &mut self.window {
            window.ready = window.written..window.written;
        }
    }
}

/// A part of the file that is mapped into memory.
struct Window {
    start: u64,
    memory: MmapMut,
    /// Offset in the file at which the last copy ended.
    written: u64,
    /// The part of the file that can be written without a fault.
    ready: std::ops::Range<u64>,
}

impl Window {
    fn open(file: &File, offset: u64) -> Option<Window> {
        let start = offset - offset % PAGE_BYTES;
        // Only whole pages below the file's end: an access beyond the end would be a signal.
        let file_end = file.metadata().ok()?.len() / PAGE_BYTES * PAGE_BYTES;
        let end = file_end.min((offset + 1).next_multiple_of(WINDOW_BYTES));
        let len = end.checked_sub(start)? as usize;
        if len == 0 {
            return None;
        }
        // SAFETY: the file is a log in a folder that this process has locked. Nothing shortens a
        // log that is still appended to. Only this window, and its owner, write to this part of it.
        // Nothing is read through the mapping.
        #[allow(unsafe_code, reason = "a mapping of a file; the measurement is at the top")]
        let memory = unsafe { MmapOptions::new().offset(start).len(len).map_mut(file) }.ok()?;
        Some(Window { start, memory, written: offset, ready: offset..offset })
    }

    fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }

    fn holds(&self, offset: u64) -> bool {
        (self.start..self.end()).contains(&offset)
    }

    fn is_ready(&self, from: u64, to: u64) -> bool {
        self.ready.start <= from && to <= self.ready.end
    }

    /// Makes pages ready for writing. `to` is the end of a page. `None` if that fails.
    fn make_ready(&mut self, from: u64, to: u64) -> Option<()> {
        let first = from - from % PAGE_BYTES;
        let len = (to - first) as usize;
        let at = (first - self.start) as usize;
        self.memory.advise_range(Advice::PopulateWrite, at, len).ok()?;
        self.ready = first..to;
        Some(())
    }

    /// Copies the bytes of `from..to`, which is ready. Returns their number.
    fn copy(&mut self, from: u64, to: u64, bytes: &[u8]) -> usize {
        let (at, len) = ((from - self.start) as usize, (to - from) as usize);
        self.memory[at..at + len].copy_from_slice(&bytes[..len]);
        self.written = to;
        len
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::realdisk::RealDisk;
    use crate::disk::traits::Disk;

    fn folder(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("babu-mapped-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_is_appended_is_read_whatever_its_place_and_size() {
        let folder = folder("append");
        let disk = RealDisk::open(&folder).unwrap();
        let file = disk.create("log").unwrap();
        file.allocate(3 << 20).unwrap();
        let mut appender = file.appender().expect("temporary folders are on ext4, XFS or tmpfs");
        let mut expected = vec![0; 4096];
        let mut random = fastrand::Rng::with_seed(7);
        // The loop also goes beyond the allocated part: those bytes go through ordinary writes.
        while expected.len() < 4 << 20 {
            let len = random.choice([1, 100, 4096, 5000, 200_000]).unwrap();
            let bytes: Vec<u8> = (0..len).map(|n| (n + expected.len()) as u8 | 1).collect();
            let offset = expected.len() as u64;
            // Ordinary writes fall into the middle of pages that were brought in, or soon will be.
            match random.u8(..3) == 0 {
                true => file.write_at(offset, &bytes).unwrap(),
                false => appender.append(offset, &bytes).unwrap(),
            }
            expected.extend_from_slice(&bytes);
            if random.u8(..7) == 0 {
                file.sync().unwrap();
                appender.synced();
            }
        }
        let mut found = vec![0; expected.len()];
        file.read_at(0, &mut found).unwrap();
        assert!(found == expected);
        drop((appender, file, disk));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_without_room_is_written_the_ordinary_way() {
        let folder = folder("short");
        let disk = RealDisk::open(&folder).unwrap();
        let file = disk.create("log").unwrap();
        let mut appender = file.appender().unwrap();
        appender.append(10, b"abc").unwrap();
        appender.append(13, b"def").unwrap();
        let mut found = [0; 16];
        file.read_at(0, &mut found).unwrap();
        assert_eq!(&found[10..], b"abcdef");
        drop((appender, file, disk));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
