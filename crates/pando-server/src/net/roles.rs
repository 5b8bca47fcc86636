//! What the other end of a connection may say, by what it has proved to be. One table for questions, one for requests.

use pando_keys::Squash;
use pando_net::Who;
use pando_types::op::{Op, Request};
use pando_types::{Errno, Judge};
use pando_wire::{Ask, Role};

/// Permission to write, in the mask of an open.
const W: u8 = 2;

/// Which keys something is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum For {
    /// All of the volume.
    All,
    /// Servers' and admins' keys, and the folder's owner.
    Trusted,
    /// Servers' keys, and the folder's owner.
    Servers,
}

impl For {
    pub(super) fn admits(self, who: &Who) -> bool {
        match self {
            Self::All => true,
            Self::Trusted => who.is_trusted(),
            Self::Servers => who.is_server(),
        }
    }
}

/// As what somebody comes.
pub(super) const fn of_role(role: &Role) -> For {
    match role {
        // Requests and questions are looked at one by one.
        Role::Client(_) | Role::Tool => For::All,
        // It speaks for shards, and says where they are.
        Role::Peer(..) => For::Servers,
    }
}

/// What a tool asks.
pub(super) const fn of_ask(ask: &Ask) -> For {
    match ask {
        // Each mount needs it: hash secrets, map, where file data is.
        Ask::Volume => For::All,
        // Each mount needs it: where shards are.
        Ask::Hosts => For::All,
        // `status`: counters, no names.
        Ask::Status => For::All,
        // `shard list`: counts, no names.
        Ask::Census(..) => For::All,
        // `shard list`: what is on its way.
        Ask::Moves => For::All,
        // All records of all users: `fsck`, and a copy of a shard.
        Ask::Scan { .. } => For::Trusted,
        // Ends the service for all.
        Ask::Stop => For::Trusted,
        // What makes a folder a part of the volume.
        Ask::Superblock => For::Trusted,
        // A shard moves here.
        Ask::Adopt(..) => For::Trusted,
        // Freezes a shard and gives it away: said by the server that takes it.
        Ask::Move(..) => For::Servers,
        // The volume grows.
        Ask::Found(_) => For::Trusted,
    }
}

/// What a request does, as far as it matters who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Changes nothing that others see but the client's own session: what it has open and locked.
    Reads,
    /// Changes files, directories or what is to be deleted.
    Changes,
    /// Changes how the volume is spread over shards.
    Spreads,
}

/// What a request does.
pub(super) const fn of_op(op: &Op) -> Kind {
    match op {
        // What is looked at.
        Op::Lookup(..)
        | Op::GetAttr(_)
        | Op::Readlink(_)
        | Op::Access(..)
        | Op::ReadData { .. }
        | Op::GetXattr(..)
        | Op::ListXattr(_)
        | Op::DirGetAttr(_)
        | Op::PartitionStat(..)
        | Op::DirAccess(..)
        | Op::ReadDir { .. }
        | Op::Parent(_)
        | Op::StatFs(_)
        | Op::Glimpse(..)
        // `info`: how a directory is spread.
        | Op::InspectDir(..) => Kind::Reads,
        // The session and what it has.
        Op::OpenSession
        | Op::OpenLocalSession
        | Op::EndSession(_)
        | Op::Renew(_)
        | Op::Alone(..)
        | Op::Release(_)
        | Op::ReleaseAll(..)
        | Op::Lock(..)
        | Op::Unlock(..)
        | Op::TestLock(..)
        | Op::Sync(_) => Kind::Reads,
        // An open is a read unless it is for writing.
        Op::Open { access, truncate, .. } | Op::OpenName { access, truncate, .. } => {
            if *truncate || *access & W != 0 { Kind::Changes } else { Kind::Reads }
        }
        // What is changed.
        Op::Create { .. }
        | Op::Mkdir(..)
        | Op::Unlink(..)
        | Op::Rmdir(..)
        | Op::Link(..)
        | Op::Rename { .. }
        | Op::SetAttr(..)
        | Op::WriteData { .. }
        | Op::SetXattr { .. }
        | Op::RemoveXattr(..)
        | Op::DirSetAttr(..)
        // Objects to be deleted, by who can.
        | Op::Garbage(..)
        | Op::GarbageDone(..) => Kind::Changes,
        // `shard add`.
        Op::HandOver(..) | Op::AddShard(_) => Kind::Spreads,
    }
}

/// Lets a request pass as its key allows: changed, where the key says as whom its holder acts. `Err`: the shard is not to see it.
pub(super) fn pass(who: &Who, request: &mut Request) -> Result<(), Errno> {
    match of_op(&request.op) {
        Kind::Spreads if !who.is_trusted() => return Err(Errno::EPERM),
        Kind::Changes if who.is_read_only() => return Err(Errno::EROFS),
        _ => {}
    }
    if let Some(squash) = who.squash() {
        squash_request(squash, request);
    }
    Ok(())
}

/// The shard judges, whatever the client's kernel has decided: that knew another user.
fn squash_request(squash: Squash, request: &mut Request) {
    let credentials = &mut request.credentials;
    let groups = match (squash, std::mem::take(&mut credentials.judge)) {
        (Squash::Root { gid, .. }, Judge::Shard(mut groups)) => {
            groups.iter_mut().filter(|group| **group == 0).for_each(|group| *group = gid);
            groups
        }
        _ => Vec::new(),
    };
    credentials.judge = Judge::Shard(groups);
    match squash {
        Squash::All { uid, gid } => (credentials.uid, credentials.gid) = (uid, gid),
        Squash::Root { uid, gid } => {
            if credentials.uid == 0 {
                credentials.uid = uid;
            }
            if credentials.gid == 0 {
                credentials.gid = gid;
            }
        }
    }
    if let Op::SetAttr(_, set) | Op::DirSetAttr(_, set) = &mut request.op {
        // That it was opened for writing is the client's word.
        set.size_by_handle = false;
    }
}
