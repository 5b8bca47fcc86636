//! A disk that takes index files only while its gate is open.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use babu::{Disk, DiskFile, MemDisk};

/// What becomes of writes of index files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    Open,
    /// They wait.
    Closed,
    /// They find the disk full.
    Full,
}

#[derive(Clone)]
pub(crate) struct Gated {
    pub(crate) disk: MemDisk,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

impl Gated {
    pub(crate) fn new() -> Self {
        Self { disk: MemDisk::new(), gate: Arc::new((Mutex::new(Gate::Closed), Condvar::new())) }
    }

    pub(crate) fn set(&self, gate: Gate) {
        *self.gate.0.lock().unwrap() = gate;
        self.gate.1.notify_all();
    }

    fn pass(&self) -> io::Result<()> {
        let gate = self.gate.0.lock().unwrap();
        let gate = self.gate.1.wait_while(gate, |gate| *gate == Gate::Closed).unwrap();
        match *gate {
            Gate::Full => Err(io::ErrorKind::StorageFull.into()),
            Gate::Open | Gate::Closed => Ok(()),
        }
    }
}

/// Opens the gate at the end of a test, so that no thread waits for it.
pub(crate) struct Opened<'a>(pub(crate) &'a Gated);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.set(Gate::Open);
    }
}

struct Slow(Box<dyn DiskFile>, Gated);

impl DiskFile for Slow {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.1.pass()?;
        self.0.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
}

impl Disk for Gated {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.create(name)?;
        Ok(match name.starts_with("idx-") {
            true => Box::new(Slow(file, self.clone())),
            false => file,
        })
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
}
