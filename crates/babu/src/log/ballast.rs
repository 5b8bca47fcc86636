//! Disk room that is kept for a full disk, so that openings, deletions and checkpoints can go on
//! ([`crate::Options::ballast_bytes`]).
//!
//! | file | what it is | when there is no other room |
//! |---|---|---|
//! | `SPARE-LOG` | the next log, before anything is written to it | an opening or a freeze renames it to that log |
//! | `BALLAST` | room for the next checkpoint, and for making `SPARE-LOG` | is removed |
//!
//! 1. While the database is open, there is room for the next opening: a log, and a manifest.
//!    Normally this is `SPARE-LOG`. If that is used up and cannot be made anew, it is the end of
//!    the active log. There up to [`OPENING_BYTES`] are then held back from all changes. Renaming
//!    takes no room, so no other user of the disk can take the room in between.
//! 2. `BALLAST` is as large as what the next checkpoint writes at most, and
//!    [`crate::Options::ballast_bytes`] more. Counted are the log since the last checkpoint, and
//!    rewritten index files up to the size of a one-level index. Snapshots are not counted. In a
//!    deeper index, checkpoints on a full disk do as much as they have room for
//!    ([`crate::levels::compact`]).
//! 3. While the ballast is not whole, [`crate::Priority::Normal`] is refused: room that is made
//!    goes to the ballast first.
//! 4. No manifest names either file, and nothing reads their content. An opening or a later change
//!    makes them if they are missing.
//! 5. Databases of one disk do not take each other's kept room while it is used: see
//!    [`crate::disk::room`]. A loan ends when the checkpoint is installed and its old files are
//!    removed, or when it has failed. The ballast is filled again before others may take room.
//! 6. Neither is synced: a loss of power may give their room back to the disk. If another program
//!    then fills the disk, an opening may have to wait until room is made.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::room::{Held, Share};
use crate::disk::traits::{Disk, DiskFile};
use crate::log::header::{LOG_DATA_OFFSET, LogHeader};
use crate::log::log_name;
use crate::log::window::Window;
use crate::types::error::{IoContext, IoFailure};
use crate::types::options::FLAT_FILES;
use crate::types::options::Options;

pub(crate) const SPARE_LOG: &str = "SPARE-LOG";
const BALLAST: &str = "BALLAST";

/// Bytes that an opening on a full disk takes from a log, as room for a manifest. A longer manifest
/// takes the rest from the log's reserve.
pub(crate) const OPENING_BYTES: u64 = 64 << 10;

/// Smallest amount of room that the ballast takes, in bytes.
const PAGE: u64 = 4096;

/// Longest time for which a checkpoint waits for another database's loan.
const LOAN_MAX: Duration = Duration::from_secs(10);

/// Bytes that are overwritten in one step.
const STEP: u64 = 1 << 20;

/// The ballast of a database. The database keeps it, and lends it to checkpoints.
pub(crate) struct Ballast {
    disk: Arc<dyn Disk>,
    /// Bytes to keep beyond what a checkpoint needs. 0: the database has no ballast.
    bytes: u64,
    rewritten_bytes: u64,
    spare_bytes: u64,
    share: Share,
    is_whole: AtomicBool,
    room: Mutex<Room>,
}

#[derive(Default)]
struct Room {
    /// Length of `BALLAST` in bytes. 0: the file does not exist.
    len: u64,
    has_spare: bool,
    /// Bytes of log and of index files for which `BALLAST` has, or should have, room.
    asked: (u64, u64),
    /// Loans to checkpoints. A loan ends later than its checkpoint, so the next may have begun.
    loans: u32,
}

/// A loan of the room to a checkpoint. It ends when this is dropped, and the ballast is then filled
/// again.
pub(crate) struct Lent {
    ballast: Arc<Ballast>,
    _held: Held,
}

impl Ballast {
    /// The ballast that an opening has left. It is not whole before it is [filled](Ballast::fill).
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        options: &Options,
        share: Share,
    ) -> Result<Arc<Ballast>, IoFailure> {
        let mut room = Room::default();
        if options.ballast_bytes > 0 {
            room.len = len(&**disk, BALLAST)?.unwrap_or(0);
            room.has_spare = len(&**disk, SPARE_LOG)?.is_some_and(|len| len >= OPENING_BYTES);
        }
        Ok(Arc::new(Ballast {
            disk: disk.clone(),
            bytes: options.ballast_bytes,
            rewritten_bytes: FLAT_FILES.saturating_mul(options.sizes().file_bytes),
            spare_bytes: spare_bytes(options),
            share,
            is_whole: AtomicBool::new(options.ballast_bytes == 0),
            room: Mutex::new(room),
        }))
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database's part in the room of its disk. Whoever takes room for a log asks it.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// True if all room that should be kept is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// True while a checkpoint has the room.
    pub(crate) fn is_lent(&self) -> bool {
        self.room().loans > 0
    }

    /// Bytes at the end of the active log that are held back for the next opening.
    pub(crate) fn held_back(&self) -> u64 {
        match self.bytes == 0 || self.room().has_spare {
            true => 0,
            false => OPENING_BYTES,
        }
    }

    /// Notes that the log may grow to `log_bytes`. If the ballast was filled for less, it is no
    /// longer whole. It is filled again before the next change that takes space.
    pub(crate) fn expect_log(&self, log_bytes: u64) {
        if self.bytes == 0 {
            return;
        }
        let mut room = self.room();
        if room.asked.0 < log_bytes {
            // A `refill` before the next `fill` then also makes room for this log.
            room.asked.0 = log_bytes;
            self.is_whole.store(false, Ordering::Release);
        }
    }

    /// Adds missing room to the ballast, or gives up what is too much. Returns whether the ballast
    /// is whole then. A full disk is no error, nor is a checkpoint that has the room.
    pub(crate) fn fill(&self, log_bytes: u64, index_bytes: u64) -> Result<bool, IoFailure> {
        if self.bytes == 0 {
            return Ok(true);
        }
        let mut room = self.room();
        room.asked = (log_bytes, index_bytes);
        self.fill_as_asked(room)
    }

    /// Fills the ballast again, after room was made on the disk. Returns whether it is whole then.
    pub(crate) fn refill(&self) -> Result<bool, IoFailure> {
        match self.is_whole() {
            true => Ok(true),
            false => self.fill_as_asked(self.room()),
        }
    }

    fn fill_as_asked(&self, mut room: MutexGuard<'_, Room>) -> Result<bool, IoFailure> {
        self.is_whole.store(false, Ordering::Release);
        let (log_bytes, index_bytes) = room.asked;
        let wanted = self.bytes + log_bytes + index_bytes.min(self.rewritten_bytes);
        if room.loans > 0 || !self.make_spare(&mut room)? || !self.resize(&mut room, wanted)? {
            return Ok(false);
        }
        self.is_whole.store(true, Ordering::Release);
        Ok(true)
    }

    /// Makes `SPARE-LOG` if it is missing, from the room of `BALLAST` if need be. Returns whether
    /// it is there.
    fn make_spare(&self, room: &mut Room) -> Result<bool, IoFailure> {
        if room.has_spare {
            return Ok(true);
        }
        let make = || -> Result<(), IoFailure> {
            let file = self.disk.create(SPARE_LOG).during("create", SPARE_LOG)?;
            file.allocate(self.spare_bytes).during("allocate", SPARE_LOG)
        };
        let Some(made) = self.share.grow(make) else { return Ok(false) };
        room.has_spare = succeeds(made)?;
        if !room.has_spare
            && room.len > 0
            && let Some(_held) = self.share.exchange()
        {
            self.resize(room, room.len.saturating_sub(self.spare_bytes))?;
            room.has_spare = succeeds(make())?;
        }
        if !room.has_spare {
            remove(&*self.disk, SPARE_LOG)?;
        }
        Ok(room.has_spare)
    }

    fn resize(&self, room: &mut Room, wanted: u64) -> Result<bool, IoFailure> {
        if room.len == wanted {
            return Ok(true);
        }
        if wanted == 0 {
            remove(&*self.disk, BALLAST)?;
            room.len = 0;
            return Ok(true);
        }
        let file = match room.len {
            0 => self.disk.create(BALLAST),
            _ => self.disk.open(BALLAST),
        };
        let Some(file) = succeeds_with(file.during("open", BALLAST))? else { return Ok(false) };
        if wanted < room.len {
            file.set_len(wanted).during("cut", BALLAST)?;
            room.len = wanted;
        }
        self.share.grow(|| grow(&*file, &mut room.len, wanted)).transpose()?;
        Ok(room.len == wanted)
    }

    /// Makes the next log of `SPARE-LOG`, or else of `BALLAST`'s room. `None`: there is neither.
    pub(crate) fn take_log(&self, header: &LogHeader) -> Result<Option<Made>, IoFailure> {
        if self.bytes == 0 {
            return Ok(None);
        }
        let mut room = self.room();
        if room.loans == 0 {
            self.make_spare(&mut room)?;
        }
        let made = match room.has_spare {
            true => become_log(&*self.disk, SPARE_LOG, header)?,
            false => None,
        };
        room.has_spare &= made.is_none();
        self.is_whole.store(false, Ordering::Release);
        Ok(made)
    }

    /// Gives the room to a checkpoint. `None`: the database has no ballast. The disk is full for
    /// this checkpoint while another database of the disk has lent its room. With no `BALLAST`
    /// left, the loan still keeps what the checkpoint frees from others.
    pub(crate) fn lend(self: &Arc<Self>) -> Result<Option<Lent>, IoFailure> {
        let mut room = self.room();
        if self.bytes == 0 {
            return Ok(None);
        }
        let held = self.share.lend().ok_or_else(is_lent_to_another)?;
        self.is_whole.store(false, Ordering::Release);
        self.resize(&mut room, 0)?;
        room.loans += 1;
        Ok(Some(Lent { ballast: self.clone(), _held: held }))
    }

    /// Waits until no other database of the disk has lent its room, which a checkpoint that begins
    /// would take.
    pub(crate) fn await_loans(&self) -> Result<(), IoFailure> {
        match self.share.await_loans(LOAN_MAX) {
            true => Ok(()),
            false => Err(is_lent_to_another()),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.ballast.room().loans -= 1;
        // A failure shows again when the ballast is filled before the next change.
        let _ = self.ballast.refill();
    }
}

fn is_lent_to_another() -> IoFailure {
    let what = "the disk is full, and another database on it makes a checkpoint in the room left";
    let source = std::io::Error::new(ErrorKind::StorageFull, what);
    IoFailure { file: BALLAST.to_owned(), operation: "use", source }
}

/// A log with its header, and the offset up to which it is preallocated.
pub(crate) type Made = (Arc<dyn DiskFile>, u64);

/// Length in bytes of a log that is made for a full disk.
pub(crate) fn spare_bytes(options: &Options) -> u64 {
    LOG_DATA_OFFSET + options.reserve_bytes + OPENING_BYTES
}

/// Turns a preallocated file into the log of this header, without taking room of the disk. `None`:
/// the file does not exist, or is too short.
pub(crate) fn become_log(
    disk: &dyn Disk,
    name: &str,
    header: &LogHeader,
) -> Result<Option<Made>, IoFailure> {
    let file: Arc<dyn DiskFile> = match disk.open(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => Arc::from(file.during("open", name)?),
    };
    let len = file.len().during("read", name)?;
    if len <= LOG_DATA_OFFSET {
        return Ok(None);
    }
    // The file may have been a log before a loss of power took that name back.
    let end = Window::new(file.clone(), name.to_owned())?.nonzero_end(0)?;
    for at in (0..end).step_by(STEP as usize) {
        let zeros = vec![0; STEP.min(end - at) as usize];
        file.write_at(at, &zeros).during("write", name)?;
    }
    let log = log_name(header.number);
    disk.rename(name, &log).during("rename", name)?;
    file.write_at(0, &header.encode()).during("write", &log)?;
    Ok(Some((file, len)))
}

/// Gives `bytes` of `BALLAST` back to the disk before a database is open.
pub(crate) fn give_back(disk: &dyn Disk, bytes: u64) -> Result<(), IoFailure> {
    match len(disk, BALLAST)? {
        None => Ok(()),
        Some(len) if len <= bytes => remove(disk, BALLAST),
        Some(len) => {
            let file = disk.open(BALLAST).during("open", BALLAST)?;
            file.set_len(len - bytes).during("cut", BALLAST)
        }
    }
}

fn len(disk: &dyn Disk, name: &str) -> Result<Option<u64>, IoFailure> {
    match disk.open(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => file.and_then(|file| file.len()).map(Some).during("open", name),
    }
}

fn remove(disk: &dyn Disk, name: &str) -> Result<(), IoFailure> {
    match disk.remove(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result.during("remove", name),
    }
}

/// Makes `BALLAST` as long as the disk has room for, up to `wanted`. Otherwise other users of the
/// disk could take the free room.
fn grow(file: &dyn DiskFile, len: &mut u64, wanted: u64) -> Result<(), IoFailure> {
    let (mut step, mut has_failed) = (wanted - *len, false);
    while *len < wanted && step > 0 {
        let end = wanted.min(*len + step);
        if succeeds(file.allocate(end).during("allocate", BALLAST))? {
            *len = end;
            continue;
        }
        // The failed call may have taken some of the room.
        file.set_len(*len).during("cut", BALLAST)?;
        // On a disk that is full to the last byte, one attempt with a page shows that.
        if !has_failed {
            has_failed = true;
            if !succeeds(file.allocate(*len + PAGE).during("allocate", BALLAST))? {
                return Ok(());
            }
            *len += PAGE;
        }
        step = step / 2 / PAGE * PAGE;
    }
    Ok(())
}

/// True if the disk had room. Other failures stay errors.
fn succeeds(result: Result<(), IoFailure>) -> Result<bool, IoFailure> {
    succeeds_with(result).map(|done| done.is_some())
}

fn succeeds_with<T>(result: Result<T, IoFailure>) -> Result<Option<T>, IoFailure> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(failure) if failure.is_full() => Ok(None),
        Err(failure) => Err(failure),
    }
}
