//! The forgetful disk as a mounted file system, with power that can be cut.
//!
//! The power is cut at a request, counted from the beginning. That request and all later ones get
//! no answer until the processes that use the disk were killed. So no program sees an error that a
//! loss of power would not have shown it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pando_fuse::device::{Entry, Errno, FileSystem, Listing, Operation, Reply, Request, abi};
use pando_fuse::mount_filesystem;
use pando_fuse::{Mounted, Options};

use super::disk::{Content, Disk, PAGE, ROOT};

/// How long the kernel may remember. Nothing else changes the disk.
const VALID: Duration = Duration::from_secs(3600);
/// Longest time for which an unmounted disk may be busy.
const LIMIT: Duration = Duration::from_secs(30);
const O_TRUNC: u32 = 0o1000;
const NOREPLACE: u32 = 1;
const KINDS: u32 = 0o170_000;

/// What exists after the power was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Everything: only the processes have died.
    All,
    /// What was synced, and some of the rest.
    Some,
    /// What was synced.
    Synced,
}

#[derive(Clone)]
pub struct Served(Arc<(Mutex<State>, Condvar)>);

struct State {
    disk: Disk,
    /// Number of changes and syncs so far.
    requests: u64,
    /// Number of the request at which the power is cut.
    pulled_at: u64,
    power: Power,
    parked: Vec<Reply>,
    listings: HashMap<u64, Vec<(Vec<u8>, u64, u32)>>,
    next_handle: u64,
    /// The error of each `close`, if they fail.
    close_error: Option<Errno>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    /// No request is answered.
    Gone,
    /// Every request fails.
    Off,
}

impl Served {
    pub fn new() -> Self {
        let state = State {
            disk: Disk::new(),
            requests: 0,
            pulled_at: u64::MAX,
            power: Power::On,
            parked: Vec::new(),
            listings: HashMap::new(),
            next_handle: 1,
            close_error: None,
        };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    pub fn mount(&self, path: &Path) -> Mounted {
        let options = Options { threads: 2, ..Options::default() };
        mount_filesystem(Arc::new(self.clone()), path, &options).expect("this test has to mount")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    /// Makes every `close` fail, as those of NFS do when it cannot write back. `None`: none fails.
    pub fn fail_closes(&self, errno: Option<Errno>) {
        self.lock().close_error = errno;
    }

    /// Number of changes and syncs so far.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Cuts the power after `count` more changes and syncs.
    pub fn pull_after(&self, count: u64) {
        let mut state = self.lock();
        state.pulled_at = state.requests + count;
        state.check_plug();
        self.0.1.notify_all();
    }

    /// Whether the power is cut.
    pub fn is_gone(&self) -> bool {
        self.lock().power != Power::On
    }

    /// Waits until the power is cut; false if that takes longer than `limit`.
    pub fn await_gone(&self, limit: Duration) -> bool {
        let waits = |state: &mut State| state.power == Power::On;
        !self.0.1.wait_timeout_while(self.lock(), limit, waits).unwrap().1.timed_out()
    }

    /// Makes all requests fail, so that the kernel can release the disk. The processes that use it
    /// must have been killed.
    pub fn switch_off(&self) {
        let parked = {
            let mut state = self.lock();
            state.power = Power::Off;
            std::mem::take(&mut state.parked)
        };
        parked.into_iter().for_each(refuse);
    }

    /// Unmounts this disk. Another test may be starting a process: that has this program's files
    /// open until it runs its own program, and the disk is busy for as long.
    pub fn unmount(&self, mut mounted: Mounted) {
        let begun = Instant::now();
        while let Err((error, still)) = mounted.unmount() {
            let is_busy = error.raw_os_error() == Some(Errno::BUSY.raw_os_error());
            assert!(is_busy && begun.elapsed() < LIMIT, "the disk cannot be unmounted: {error}");
            mounted = still;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Restores the power, with what is left on the disk. The disk must not be mounted.
    pub fn switch_on(&self, random: &mut fastrand::Rng, kept: Kept) {
        let mut state = self.lock();
        assert!(state.power == Power::Off);
        if kept != Kept::All {
            state.disk = state.disk.survivor(random, kept == Kept::Some);
        }
        (state.power, state.pulled_at) = (Power::On, u64::MAX);
        state.listings.clear();
    }
}

impl FileSystem for Served {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        let mut state = self.lock();
        if state.power == Power::On && is_change(&request.operation) {
            state.requests += 1;
            state.check_plug();
            if state.power != Power::On {
                self.0.1.notify_all();
            }
        }
        match state.power {
            Power::On => {}
            Power::Gone => return state.parked.push(reply),
            Power::Off => return refuse(reply),
        }
        if let Err((errno, reply)) = state.run(request, reply) {
            let _ = reply.error(errno);
        }
    }

    fn forget(&self, _node: u64, _count: u64) {}
}

fn refuse(reply: Reply) {
    let _ = reply.error(Errno::IO);
}

fn is_change(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Setattr(_)
        | Operation::Mknod { .. }
        | Operation::Mkdir { .. }
        | Operation::Unlink { .. }
        | Operation::Rmdir { .. }
        | Operation::Rename { .. }
        | Operation::Link { .. }
        | Operation::Create { .. }
        | Operation::Write { .. }
        | Operation::Fsync
        | Operation::Fsyncdir
        | Operation::Fallocate { .. } => true,
        Operation::Open { flags, .. } => flags & O_TRUNC != 0,
        _ => false,
    }
}

type Failed = (Errno, Reply);

impl State {
    fn check_plug(&mut self) {
        if self.power == Power::On && self.requests >= self.pulled_at {
            self.power = Power::Gone;
        }
    }

    fn run(&mut self, request: &Request<'_>, reply: Reply) -> Result<(), Failed> {
        let node = request.node;
        macro_rules! check {
            ($result:expr) => {
                match $result {
                    Ok(value) => value,
                    Err(errno) => return Err((errno, reply)),
                }
            };
        }
        // It does not matter whether an answer arrives, since nothing counts answers.
        let _ = match &request.operation {
            Operation::Lookup { name } => {
                let found = check!(self.find(node, name));
                reply.entry(&self.entry(found))
            }
            Operation::Getattr => reply.attr(self.attr(node), VALID),
            Operation::Setattr(to) => {
                check!(self.set_attributes(node, to));
                reply.attr(self.attr(node), VALID)
            }
            Operation::Mknod { name, mode, rdev } => {
                let made = check!(self.make(node, name, *mode, *rdev));
                reply.entry(&self.entry(made))
            }
            Operation::Mkdir { name, mode } => {
                let made = check!(self.make(node, name, 0o040_000 | mode & 0o7777, 0));
                reply.entry(&self.entry(made))
            }
            Operation::Create { name, mode, .. } => {
                let made = check!(self.make(node, name, 0o100_000 | mode & 0o7777, 0));
                reply.created(&self.entry(made), 0, 0)
            }
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                check!(self.remove(node, name));
                reply.ok()
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                check!(self.rename((node, name), (*new_parent, new_name), *flags));
                reply.ok()
            }
            Operation::Link { old, name } => {
                if self.find(node, name).is_ok() {
                    return Err((Errno::EXIST, reply));
                }
                check!(self.disk.dir(node).ok_or(Errno::NOTDIR)).change(set(name, Some(*old)));
                check!(self.disk.get_mut(*old).ok_or(Errno::NOENT)).links += 1;
                reply.entry(&self.entry(*old))
            }
            Operation::Open { flags, .. } => {
                if flags & O_TRUNC != 0 {
                    check!(self.disk.file(node).ok_or(Errno::INVAL)).set_size(0);
                }
                reply.opened(0, 0)
            }
            Operation::Read { offset, size, .. } => {
                let file = check!(self.disk.file(node).ok_or(Errno::INVAL));
                reply.data(&file.read(*offset, *size))
            }
            Operation::Write { offset, data, .. } => {
                check!(self.disk.file(node).ok_or(Errno::INVAL)).write(*offset, data);
                reply.written(data.len() as u32)
            }
            Operation::Fallocate { offset, len, mode: 0 } => {
                let file = check!(self.disk.file(node).ok_or(Errno::INVAL));
                if offset + len > file.size {
                    file.set_size(offset + len);
                }
                reply.ok()
            }
            Operation::Fallocate { .. } => reply.error(Errno::OPNOTSUPP),
            Operation::Fsync | Operation::Fsyncdir => {
                match self.disk.get_mut(node).map(|node| &mut node.content) {
                    Some(Content::File(file)) => file.sync(),
                    Some(Content::Dir(dir)) => dir.sync(),
                    _ => {}
                }
                reply.ok()
            }
            Operation::Opendir => {
                self.next_handle += 1;
                self.listings.insert(self.next_handle, Vec::new());
                reply.opened(self.next_handle, 0)
            }
            Operation::Readdir { handle, offset, size, .. } => {
                let listing = check!(self.list(node, *handle, *offset, *size));
                reply.listing(&listing)
            }
            Operation::Releasedir { handle } => {
                self.listings.remove(handle);
                reply.ok()
            }
            Operation::Flush { .. } => {
                check!(self.close_error.map_or(Ok(()), Err));
                reply.ok()
            }
            Operation::Release { .. } => reply.ok(),
            Operation::Statfs => reply.statfs(&abi::StatfsOut {
                blocks: 1 << 22,
                bfree: 1 << 21,
                bavail: 1 << 21,
                files: 1 << 20,
                ffree: 1 << 20,
                bsize: PAGE as u32,
                frsize: PAGE as u32,
                namelen: 255,
                ..Default::default()
            }),
            _ => reply.error(Errno::NOSYS),
        };
        Ok(())
    }

    fn find(&mut self, parent: u64, name: &[u8]) -> Result<u64, Errno> {
        let dir = self.disk.dir(parent).ok_or(Errno::NOTDIR)?;
        dir.entries.get(name).copied().ok_or(Errno::NOENT)
    }

    fn make(&mut self, parent: u64, name: &[u8], mode: u32, rdev: u32) -> Result<u64, Errno> {
        if self.find(parent, name).is_ok() {
            return Err(Errno::EXIST);
        }
        let made = self.disk.make(mode, rdev);
        self.disk.dir(parent).ok_or(Errno::NOTDIR)?.change(set(name, Some(made)));
        Ok(made)
    }

    fn remove(&mut self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        let found = self.find(parent, name)?;
        if self.disk.dir(found).is_some_and(|dir| !dir.entries.is_empty()) {
            return Err(Errno::NOTEMPTY);
        }
        self.disk.dir(parent).ok_or(Errno::NOTDIR)?.change(set(name, None));
        self.disk.get_mut(found).ok_or(Errno::NOENT)?.links -= 1;
        Ok(())
    }

    /// Renames within a directory. Nothing here needs more.
    fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Result<(), Errno> {
        if from.0 != to.0 {
            return Err(Errno::XDEV);
        }
        if flags & !NOREPLACE != 0 {
            return Err(Errno::INVAL);
        }
        let moved = self.find(from.0, from.1)?;
        let replaced = self.find(to.0, to.1).ok();
        if replaced == Some(moved) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            if flags & NOREPLACE != 0 {
                return Err(Errno::EXIST);
            }
            if self.disk.dir(replaced).is_some_and(|dir| !dir.entries.is_empty()) {
                return Err(Errno::NOTEMPTY);
            }
            self.disk.get_mut(replaced).ok_or(Errno::NOENT)?.links -= 1;
        }
        let names = [set(from.1, None), set(to.1, Some(moved))].concat();
        self.disk.dir(from.0).ok_or(Errno::NOTDIR)?.change(names);
        Ok(())
    }

    fn set_attributes(&mut self, node: u64, to: &abi::SetattrIn) -> Result<(), Errno> {
        if to.valid & abi::fattr::SIZE != 0 {
            self.disk.file(node).ok_or(Errno::INVAL)?.set_size(to.size);
        }
        if to.valid & abi::fattr::MODE != 0 {
            let found = self.disk.get_mut(node).ok_or(Errno::NOENT)?;
            found.mode = found.mode & KINDS | to.mode & 0o7777;
        }
        Ok(())
    }

    fn list(&mut self, node: u64, handle: u64, from: u64, size: u32) -> Result<Listing, Errno> {
        if from == 0 {
            let entries = self.disk.dir(node).ok_or(Errno::NOTDIR)?.entries.clone();
            let mode = |node: u64| self.disk.get(node).map_or(0, |node| node.mode);
            let all = entries.into_iter().map(|(name, node)| (name, node, mode(node))).collect();
            self.listings.insert(handle, all);
        }
        let mut listing = Listing::new(size);
        let entries = self.listings.get(&handle).ok_or(Errno::BADF)?;
        for (position, (name, node, mode)) in entries.iter().enumerate().skip(from as usize) {
            if listing.add(*node, position as u64 + 1, *mode, name) {
                break;
            }
        }
        Ok(listing)
    }

    fn attr(&self, number: u64) -> abi::Attr {
        let Some(node) = self.disk.get(number) else { return abi::Attr::default() };
        let size = match &node.content {
            Content::File(file) => file.size,
            _ => 0,
        };
        abi::Attr {
            ino: number,
            size,
            blocks: size.div_ceil(512),
            mode: node.mode,
            nlink: if number == ROOT { 2 } else { node.links },
            rdev: node.rdev,
            blksize: PAGE as u32,
            ..Default::default()
        }
    }

    fn entry(&self, node: u64) -> Entry {
        Entry { node, attr: self.attr(node), entry_timeout: VALID, attr_timeout: VALID }
    }
}

fn set(name: &[u8], node: Option<u64>) -> Vec<(Vec<u8>, Option<u64>)> {
    vec![(name.to_vec(), node)]
}
