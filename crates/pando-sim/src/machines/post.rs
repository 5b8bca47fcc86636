//! What leaves a process: the shell's replies to clients and its messages to shards of other
//! processes.
//!
//! 1. A message leaves only when the shell flushes it. The shell promises to flush what it has
//!    sent.
//! 2. Nothing leaves a process after it has died, or after one of its disks has stopped.

use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use babu::MemDisk;
use pando_server::host::connection::{Asked, PeerLinks, ReplySink};
use pando_types::peer::Peer;
use pando_types::reply::Reply;
use pando_types::{KeyId, ShardIndex};

use crate::base::lock::lock;
use crate::machines::folder::Folder;

/// A message that leaves a process.
#[derive(Debug)]
pub enum Leaving {
    /// The reply to the request of this number; `None`: there will be no reply.
    Reply(u64, Option<Box<Reply>>),
    /// A message to a shard of another process.
    Peer(ShardIndex, Box<Peer>),
}

/// What has left a process, in one life of it.
#[derive(Default)]
pub struct Post {
    disks: Vec<MemDisk>,
    folder: Option<Folder>,
    is_stopped: AtomicBool,
    replies: Mutex<Vec<Leaving>>,
    peers: Mutex<Vec<Leaving>>,
    left: Mutex<Vec<Leaving>>,
}

impl Post {
    /// The post of a process with these disks. If shards move, it has a folder, too.
    #[must_use]
    pub fn new(disks: Vec<MemDisk>, folder: Option<Folder>) -> Arc<Self> {
        Arc::new(Self { disks, folder, ..Self::default() })
    }

    /// The process dies at this moment: nothing more leaves it.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Takes what has left since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Leaving> {
        take(&mut *lock(&self.left))
    }

    /// Lets a message leave at once, without a flush.
    pub fn leave(&self, leaving: Leaving) {
        self.leave_all(vec![leaving]);
    }

    /// Whether the process has died, or one of its disks has stopped.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        let has_stopped = || match &self.folder {
            Some(folder) => folder.has_stopped(),
            None => self.disks.iter().any(MemDisk::has_stopped),
        };
        self.is_stopped.load(Ordering::Relaxed) || has_stopped()
    }

    fn leave_all(&self, leaving: Vec<Leaving>) {
        if !self.has_stopped() {
            lock(&self.left).extend(leaving);
        }
    }
}

/// All connections of clients, as one sink. A request is known by its number.
pub struct Replies(pub Arc<Post>);

impl ReplySink for Replies {
    fn key(&self) -> KeyId {
        KeyId::OWNER
    }

    fn reply(&self, asked: Asked, reply: Option<&Reply>) -> bool {
        let mut replies = lock(&self.0.replies);
        replies.push(Leaving::Reply(asked.stream, reply.map(|reply| Box::new(reply.clone()))));
        replies.len() == 1
    }

    fn flush(&self) {
        let replies = take(&mut *lock(&self.0.replies));
        self.0.leave_all(replies);
    }
}

/// Connections to shards of other processes.
pub struct Links(pub Arc<Post>);

impl PeerLinks for Links {
    fn send(&self, to: ShardIndex, peer: &Peer) {
        lock(&self.0.peers).push(Leaving::Peer(to, Box::new(peer.clone())));
    }

    fn flush(&self) {
        let peers = take(&mut *lock(&self.0.peers));
        self.0.leave_all(peers);
    }
}
