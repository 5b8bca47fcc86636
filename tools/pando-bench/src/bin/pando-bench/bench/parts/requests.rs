//! Requests as a mount sends them, and a shard in this process that answers them.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pando_server::host::HostOptions;
use pando_server::{Folder, Host};
use pando_types::op::{FileAt, FileRef, Head, NewNode, Op, Request, RequestId};
use pando_types::reply::{Body, Found, Reply};
use pando_types::{Credentials, DirRef, FileKind, Ino, Name, SessionId, ShardIndex};
use tempfile::TempDir;

use crate::output::failure::Failure;
use crate::volume::make;

/// A volume of one shard that is called directly.
pub struct Shard {
    host: Host,
    session: SessionId,
    sequence: u64,
    pub dir: DirRef,
    pub dir_name: Name,
    _folder: TempDir,
}

impl Shard {
    /// Makes a new volume, with a directory to work in.
    pub fn new() -> Result<Self, Failure> {
        let temporary = make::temporary("pando-bench-")?;
        let folder = Folder::new(&temporary.path().join("volume"))?;
        make::format(&folder, 1)?;
        let superblock = folder.read()?;
        let (host, _) =
            Host::start(&folder, &superblock, &HostOptions::default(), &superblock.all_shards())?;
        let dir_name = Name::new(b"dir").map_err(|errno| unexpected(&errno))?;
        let mut shard = Self {
            host,
            session: SessionId(0),
            sequence: 0,
            dir: DirRef::ROOT,
            dir_name: dir_name.clone(),
            _folder: temporary,
        };
        shard.session = match shard.run(Op::OpenSession)?.result {
            Ok(Body::Session(session)) => session,
            other => return Err(unexpected(&other)),
        };
        shard.dir = match shard.run(Op::Mkdir(DirRef::ROOT, dir_name, 0o755))?.result {
            Ok(Body::Made(dir, _)) => dir,
            other => return Err(unexpected(&other)),
        };
        Ok(shard)
    }

    /// A request for this operation. A changing request gets a new sequence number.
    pub fn request(&mut self, op: Op) -> Request {
        // Reads need no sequence number. `OpenSession` has none, since there is no session yet.
        let is_free =
            matches!(op, Op::Lookup(..) | Op::GetAttr(..) | Op::StatFs(_) | Op::OpenSession);
        self.sequence += 1;
        let sequence = if is_free { 0 } else { self.sequence };
        let id = RequestId { session: self.session, slot: 0, sequence };
        Request {
            head: Head { id, ..Head::default() },
            credentials: Credentials::ROOT,
            op,
            trail: None,
        }
    }

    /// Calls the shard on this thread, unless the request must wait for a sync.
    pub fn call(&self, request: Request) -> Result<Reply, Failure> {
        let mut call = pin!(self.host.call(ShardIndex(0), request));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match call.as_mut().poll(&mut context) {
                Poll::Ready(Some(reply)) => return Ok(*reply),
                Poll::Ready(None) => return Err(Failure::plain("the shard has stopped")),
                Poll::Pending => std::thread::yield_now(),
            }
        }
    }

    fn run(&mut self, op: Op) -> Result<Reply, Failure> {
        let request = self.request(op);
        self.call(request)
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.host.stop();
    }
}

pub fn unexpected(what: &impl std::fmt::Debug) -> Failure {
    Failure::plain(format!("the shard answered something else than was to be: {what:?}"))
}

/// The inode number in a reply.
pub fn ino(reply: &Reply) -> Result<Ino, Failure> {
    match &reply.result {
        Ok(Body::Created(attr, true, _) | Body::Attr(attr) | Body::Found(Found::File(attr))) => {
            Ok(attr.ino)
        }
        other => Err(unexpected(other)),
    }
}

pub fn create(dir: DirRef, name: &Name) -> Op {
    let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
    Op::Create { dir, name: name.clone(), node, exclusive: true, open: true }
}

pub fn file(dir: DirRef, name: &Name, ino: Ino) -> FileRef {
    FileRef { ino, at: FileAt::Name(dir, name.clone()) }
}
