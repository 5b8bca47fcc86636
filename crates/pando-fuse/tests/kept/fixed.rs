//! A file system whose numbers are fixed by names, so that a successor gives them the same meaning.
//!
//! The root has the files `f0` to `f9`, which are nodes 10 to 19, and `n0` to `n9`, nodes 20 to 29,
//! once they are made. While the file `hold` is there, these requests wait: opens of `f1`, creates,
//! reads and writes. What is read, run and answered is noted.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pando_fuse::device::{Delivery, Entry, Errno, FileSystem, Operation, Reply, Request, abi};

use crate::diary::Diary;

/// How long a held request waits at most.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Fixed {
    pub dir: PathBuf,
    pub diary: Diary,
    pub generation: u64,
}

/// A request that may wait, and what it does then.
enum Held {
    Open,
    Create(String),
    Read(u32),
    Write(u32),
}

impl Fixed {
    fn node(&self, name: &[u8]) -> Option<u64> {
        let [kind, digit @ b'0'..=b'9'] = name else { return None };
        let digit = u64::from(digit - b'0');
        match kind {
            b'f' => Some(10 + digit),
            b'n' => {
                let made = self.dir.join(String::from_utf8_lossy(name).as_ref());
                made.exists().then_some(20 + digit)
            }
            _ => None,
        }
    }

    fn answer(&self, request: &Request<'_>, reply: Reply) -> Delivery {
        match request.operation {
            Operation::Lookup { name } => match self.node(name) {
                Some(node) => reply.entry(&entry(node)),
                None => reply.error(Errno::NOENT),
            },
            Operation::Getattr | Operation::Setattr(_) => {
                reply.attr(attr(request.node), Duration::ZERO)
            }
            Operation::Open { .. } | Operation::Opendir => reply.opened(1, 0),
            Operation::Flush { .. }
            | Operation::Fsync
            | Operation::Release { .. }
            | Operation::Releasedir { .. } => reply.ok(),
            Operation::Statfs => reply.statfs(&abi::StatfsOut::default()),
            _ => reply.error(Errno::NOSYS),
        }
    }

    /// Waits while there is a file `hold`, then runs the request.
    fn run(&self, held: &Held, unique: u64, reply: Reply) {
        let begun = Instant::now();
        while self.dir.join("hold").exists() && begun.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(2));
        }
        let about = held.name();
        self.diary.note(self.generation, "ran", about, unique);
        let delivery = match held {
            Held::Open => reply.opened(1, 0),
            Held::Create(name) => {
                let path = self.dir.join(name);
                let made = OpenOptions::new().write(true).create_new(true).open(path);
                match made.ok().and_then(|_| self.node(name.as_bytes())) {
                    Some(node) => reply.created(&entry(node), 1, 0),
                    None => reply.error(Errno::EXIST),
                }
            }
            Held::Read(size) => reply.data(&b"hello"[..5.min(*size as usize)]),
            Held::Write(size) => reply.written(*size),
        };
        let what = if delivery.is_ok() { "answered" } else { "undelivered" };
        self.diary.note(self.generation, what, about, unique);
    }
}

impl Held {
    fn of(request: &Request<'_>) -> Option<Self> {
        match request.operation {
            Operation::Open { .. } if request.node == 11 => Some(Self::Open),
            Operation::Create { name, .. } => {
                Some(Self::Create(String::from_utf8_lossy(name).into_owned()))
            }
            Operation::Read { size, .. } => Some(Self::Read(size)),
            Operation::Write { data, .. } => Some(Self::Write(data.len() as u32)),
            _ => None,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Create(_) => "create",
            Self::Read(_) => "read",
            Self::Write(_) => "write",
        }
    }
}

impl FileSystem for Fixed {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        let unique = request.unique;
        let Some(held) = Held::of(request) else {
            // What is not heard of was given up by its program.
            let _ = self.answer(request, reply);
            return;
        };
        self.diary.note(self.generation, "read", held.name(), unique);
        let this = self.clone();
        reply.queue(move |reply| this.run(&held, unique, reply));
    }

    fn forget(&self, _node: u64, _count: u64) {}
}

fn entry(node: u64) -> Entry {
    Entry { node, attr: attr(node), entry_timeout: Duration::ZERO, attr_timeout: Duration::ZERO }
}

fn attr(node: u64) -> abi::Attr {
    let mode = if node == 1 { 0o040_777 } else { 0o100_666 };
    abi::Attr { ino: node, mode, nlink: 1, size: 5, blksize: 4096, ..Default::default() }
}
