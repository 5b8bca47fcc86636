//! What the other end of a connection may ask, by its key: one table for questions of tools, one
//! for requests of clients.

use pando_keys::Squash;
use pando_net::Who;
use pando_types::op::{Op, Request};
use pando_types::{Errno, FileKind, Judge, LockKind, LockSpace};
use pando_wire::{Ask, Role};

/// Permission to write, in the mask of an open.
const W: u8 = 2;

/// The keys to which something is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum For {
    /// All keys of the volume.
    All,
    /// Keys of servers and administrators, and the folder's owner.
    Trusted,
    /// Keys of servers, and the folder's owner.
    Servers,
}

impl For {
    pub(crate) fn admits(self, who: &Who) -> bool {
        match self {
            Self::All => true,
            Self::Trusted => who.is_trusted(),
            Self::Servers => who.is_server(),
        }
    }
}

/// The keys that may connect in a role.
pub(crate) const fn of_role(role: &Role) -> For {
    match role {
        // Requests and questions are checked one by one.
        Role::Client(_) | Role::Tool => For::All,
        // A peer speaks for shards, and says where they are.
        Role::Peer(..) => For::Servers,
    }
}

/// The keys that may ask a question of tools.
pub(crate) const fn of_ask(ask: &Ask) -> For {
    match ask {
        // Each mount needs it: hash secrets, map, place of file data.
        Ask::Volume => For::All,
        // Each mount needs it: where shards are.
        Ask::Hosts => For::All,
        // `status`: counters, no names.
        Ask::Status => For::All,
        // `shard list`: counts, no names.
        Ask::Census(..) => For::All,
        // `shard list`: moves that go on.
        Ask::Moves => For::All,
        // All records of all users: `fsck`, and a copy of a shard.
        Ask::Scan { .. } => For::Trusted,
        // Ends the service for all.
        Ask::Stop => For::Trusted,
        // What makes a folder a part of the volume.
        Ask::Superblock => For::Trusted,
        // A shard moves to this process.
        Ask::Adopt(..) => For::Trusted,
        // Freezes a shard and gives it away. The server that takes the shard asks this.
        Ask::Move(..) => For::Servers,
        // The volume gets a new shard.
        Ask::Found(_) => For::Trusted,
        // A collection, which decides what objects are deleted.
        Ask::Watch(..) | Ask::Settle(..) => For::Trusted,
    }
}

/// What a request does, as far as the key matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Changes nothing but the client's own session: what it has open and locked.
    Reads,
    /// Changes files, directories, or the list of objects to delete.
    Changes,
    /// Changes how the volume is spread over shards.
    Spreads,
}

/// What a request does.
pub(crate) const fn of_op(op: &Op) -> Kind {
    match op {
        // Operations that only look.
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
        | Op::ReadFiles { .. }
        // What a client remembers.
        | Op::BorrowToRead(..)
        | Op::Attend { .. }
        | Op::Parent(_)
        | Op::StatFs(_)
        | Op::Glimpse(..)
        // `info`: how a directory is spread.
        | Op::InspectDir(..) => Kind::Reads,
        // The session, and what it has open and locked.
        Op::OpenSession
        | Op::OpenLocalSession
        | Op::EndSession(_)
        | Op::Renew(_)
        | Op::Hold(..)
        | Op::Release(_)
        | Op::ReleaseAll(..)
        | Op::Unlock(..)
        | Op::TestLock(..)
        | Op::Sync(_)
        | Op::SyncFile(_) => Kind::Reads,
        // An exclusive record lock needs a file that is open for writing. A `flock` does not.
        Op::Lock(_, lock) | Op::LockOf(_, lock) => match (lock.space, lock.kind) {
            (LockSpace::Record, LockKind::Exclusive) => Kind::Changes,
            _ => Kind::Reads,
        },
        // An open is a read unless it is for writing.
        Op::Open { access, truncate, .. } | Op::OpenName { access, truncate, .. } => {
            if *truncate || *access & W != 0 { Kind::Changes } else { Kind::Reads }
        }
        // Operations that change files and directories.
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
        // Objects to be deleted, by clients that can delete them.
        | Op::Garbage(..)
        | Op::GarbageDone(..)
        // Parts of directories that a client changes by itself.
        | Op::Borrow(..)
        | Op::LentRows(..)
        | Op::Stream { .. } => Kind::Changes,
        // `shard add`.
        Op::HandOver(..) | Op::AddShard(_) => Kind::Spreads,
    }
}

/// Checks a request against its key. Replaces its user and groups if the key is squashed. `Err`:
/// the shard must not see the request.
pub(crate) fn pass(who: &Who, request: &mut Request) -> Result<(), Errno> {
    match of_op(&request.op) {
        Kind::Spreads if !who.is_trusted() => return Err(Errno::EPERM),
        Kind::Changes if who.is_read_only() => return Err(Errno::EROFS),
        _ => {}
    }
    if let Some(squash) = who.squash() {
        if borrows(&request.op) {
            // Rows show names to every user, and elements have credentials of their own.
            return Err(Errno::EOPNOTSUPP);
        }
        if makes_device(&request.op) {
            // The holder of the key may be root at home, but must not make devices on other
            // machines.
            return Err(Errno::EPERM);
        }
        request.head.borrows = false;
        squash_request(squash, request);
    }
    Ok(())
}

const fn borrows(op: &Op) -> bool {
    matches!(op, Op::Borrow(..) | Op::BorrowToRead(..) | Op::LentRows(..) | Op::Stream { .. })
}

fn makes_device(op: &Op) -> bool {
    let Op::Create { node, .. } = op else { return false };
    matches!(node.kind, FileKind::CharDevice | FileKind::BlockDevice)
}

/// Replaces the user and groups of a request. The shard judges it from then on: the client's kernel
/// has judged another user.
fn squash_request(squash: Squash, request: &mut Request) {
    let credentials = &mut request.credentials;
    let groups = match (squash, std::mem::take(&mut credentials.judge)) {
        (Squash::Root { .. }, Judge::Shard(groups)) => groups,
        // Root's capabilities are dropped, too.
        (Squash::Root { .. }, Judge::Powers(powers)) => powers.groups,
        (Squash::Root { .. }, Judge::Kernel) | (Squash::All { .. }, _) => Vec::new(),
    };
    let mut groups = groups;
    if let Squash::Root { gid, .. } = squash {
        groups.iter_mut().filter(|group| **group == 0).for_each(|group| *group = gid);
    }
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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pando_keys::{Identity, KeyRole, Serial};
    use pando_types::op::{FileAt, FileRef, Head, NewNode, ObjectId};
    use pando_types::{
        Credentials, DirRef, HashSlot, Ino, KeyId, Lock, LockOwner, LockRange, Name, Powers,
        SessionId, SetAttr, ShardIndex,
    };
    use pando_wire::{MoveAsk, MoveToken};

    use super::*;

    const SHARD: ShardIndex = ShardIndex(0);

    fn key(role: KeyRole, read_only: bool, squash: Option<Squash>) -> Who {
        let (volume, serial, key) = ([1; 16], Serial([2; 16]), KeyId(3));
        let name = "ada".to_owned();
        Who::Key(Arc::new(Identity { volume, role, name, key, serial, read_only, squash }))
    }

    /// The folder's owner, a server, an administrator, a client.
    fn everybody() -> [Who; 4] {
        let [server, admin, client] =
            [KeyRole::Server, KeyRole::Admin, KeyRole::Client].map(|role| key(role, false, None));
        [Who::Owner, server, admin, client]
    }

    fn admitted(needs: For) -> [bool; 4] {
        everybody().map(|who| needs.admits(&who))
    }

    #[test]
    fn each_question_is_for_the_roles_in_the_table() {
        const ALL: [bool; 4] = [true; 4];
        const TRUSTED: [bool; 4] = [true, true, true, false];
        const SERVERS: [bool; 4] = [true, true, false, false];
        let table = [
            (Ask::Volume, ALL),
            (Ask::Hosts, ALL),
            (Ask::Status, ALL),
            (Ask::Census(SHARD, Vec::new()), ALL),
            (Ask::Moves, ALL),
            (Ask::Scan { shard: SHARD, from: Vec::new(), bytes: 1 }, TRUSTED),
            (Ask::Watch(SHARD, 1), TRUSTED),
            (Ask::Settle(SHARD, 1, ObjectId(0)), TRUSTED),
            (Ask::Stop, TRUSTED),
            (Ask::Superblock, TRUSTED),
            (Ask::Adopt(SHARD, 1), TRUSTED),
            (Ask::Found(SHARD), TRUSTED),
            (Ask::Move(SHARD, MoveToken([0; 16]), MoveAsk::Follow(None)), SERVERS),
        ];
        for (ask, expected) in table {
            assert_eq!(admitted(of_ask(&ask)), expected, "{ask:?}");
        }
        assert_eq!(admitted(of_role(&Role::Peer(SHARD, Vec::new()))), SERVERS);
        assert_eq!(admitted(of_role(&Role::Client(SHARD))), ALL);
        assert_eq!(admitted(of_role(&Role::Tool)), ALL);
    }

    fn request(op: Op, credentials: Credentials) -> Request {
        Request { head: Head::default(), credentials, op, trail: None }
    }

    fn file() -> FileRef {
        FileRef { ino: Ino(9), at: FileAt::Link }
    }

    #[test]
    fn each_request_is_for_the_roles_in_the_table() {
        let name = || Name::new(b"name").unwrap();
        let open = |access, truncate| Op::Open { file: file(), access, truncate, kill: None };
        let lock = |space, kind| {
            let (owner, range) = (LockOwner(1), LockRange::ALL);
            Op::Lock(Ino(9), Lock { space, owner, range, kind, pid: 1 })
        };
        // Results for the owner, a client, and a client that may only read.
        const ALL: [Result<(), Errno>; 3] = [Ok(()); 3];
        const CHANGES: [Result<(), Errno>; 3] = [Ok(()), Ok(()), Err(Errno::EROFS)];
        const SPREADS: [Result<(), Errno>; 3] = [Ok(()), Err(Errno::EPERM), Err(Errno::EPERM)];
        let table = [
            (Op::Lookup(DirRef::ROOT, name()), ALL),
            (Op::GetAttr(file()), ALL),
            (Op::ReadData { file: file(), offset: 0, len: 1 }, ALL),
            (Op::OpenSession, ALL),
            (Op::Renew(SessionId(1)), ALL),
            (Op::Release(file()), ALL),
            (Op::Sync(SHARD), ALL),
            (open(4, false), ALL),
            (open(6, false), CHANGES),
            (open(4, true), CHANGES),
            (
                Op::OpenName {
                    dir: DirRef::ROOT,
                    name: name(),
                    access: 2,
                    truncate: false,
                    kill: None,
                },
                CHANGES,
            ),
            (Op::Mkdir(DirRef::ROOT, name(), 0o755), CHANGES),
            (Op::Unlink(DirRef::ROOT, name()), CHANGES),
            (Op::Link(file(), DirRef::ROOT, name()), CHANGES),
            (Op::SetAttr(file(), SetAttr::default()), CHANGES),
            (Op::DirSetAttr(DirRef::ROOT, SetAttr::default()), CHANGES),
            (
                Op::WriteData {
                    file: file(),
                    base: None,
                    pieces: Vec::new(),
                    mtime: None,
                    kill: None,
                },
                CHANGES,
            ),
            (Op::GarbageDone(SHARD, Vec::new()), CHANGES),
            (lock(LockSpace::Record, LockKind::Exclusive), CHANGES),
            (lock(LockSpace::Record, LockKind::Shared), ALL),
            (lock(LockSpace::Flock, LockKind::Exclusive), ALL),
            (Op::HandOver(SHARD, HashSlot(1), SHARD), SPREADS),
            (Op::AddShard(SHARD), SPREADS),
        ];
        let [client, reader] = [false, true].map(|ro| key(KeyRole::Client, ro, None));
        for (op, expected) in table {
            for (who, expected) in [&Who::Owner, &client, &reader].into_iter().zip(expected) {
                let mut asked = request(op.clone(), Credentials::ROOT);
                assert_eq!(pass(who, &mut asked), expected, "{who}: {op:?}");
                assert_eq!(asked, request(op.clone(), Credentials::ROOT));
            }
        }
        for who in everybody() {
            let may = pass(&who, &mut request(Op::AddShard(SHARD), Credentials::ROOT)).is_ok();
            assert_eq!(may, who.is_trusted(), "{who}");
        }
    }

    #[test]
    fn a_squashed_key_acts_as_another_user_and_the_shard_judges() {
        let root = Squash::Root { uid: 1000, gid: 1001 };
        let all = Squash::All { uid: 1000, gid: 1001 };
        let powers = |groups: &[u32]| {
            let (groups, capabilities) = (groups.to_vec(), u64::MAX);
            let (users, groups_known) = (vec![(0, u32::MAX)], vec![(0, u32::MAX)]);
            Judge::Powers(Box::new(Powers { groups, capabilities, users, groups_known }))
        };
        let by = |uid, gid, judge| Credentials { uid, gid, judge };
        let shard = |groups: &[u32]| Judge::Shard(groups.to_vec());
        let table = [
            (root, by(0, 0, shard(&[])), by(1000, 1001, shard(&[]))),
            (root, by(0, 7, shard(&[0, 8])), by(1000, 7, shard(&[1001, 8]))),
            (root, by(7, 0, shard(&[0])), by(7, 1001, shard(&[1001]))),
            (root, by(7, 8, shard(&[9])), by(7, 8, shard(&[9]))),
            (root, by(0, 0, Judge::Kernel), by(1000, 1001, shard(&[]))),
            (root, by(7, 8, Judge::Kernel), by(7, 8, shard(&[]))),
            (root, by(7, 8, powers(&[0, 9])), by(7, 8, shard(&[1001, 9]))),
            (all, by(0, 0, shard(&[0, 5])), by(1000, 1001, shard(&[]))),
            (all, by(7, 8, Judge::Kernel), by(1000, 1001, shard(&[]))),
            (all, by(7, 8, powers(&[9])), by(1000, 1001, shard(&[]))),
        ];
        for (squash, before, expected) in table {
            let who = key(KeyRole::Client, false, Some(squash));
            let mut asked = request(Op::GetAttr(file()), before.clone());
            pass(&who, &mut asked).unwrap();
            assert_eq!(asked.credentials, expected, "{squash}: {before:?}");
        }
        let device = |kind| {
            let node = NewNode { kind, mode: 0o666, rdev: 1, symlink: Vec::new() };
            let name = Name::new(b"sda").unwrap();
            let op = Op::Create { dir: DirRef::ROOT, name, node, exclusive: true, open: false };
            let squashed = key(KeyRole::Client, false, Some(Squash::All { uid: 0, gid: 0 }));
            pass(&squashed, &mut request(op, Credentials::ROOT))
        };
        assert_eq!(device(FileKind::BlockDevice), Err(Errno::EPERM));
        assert_eq!(device(FileKind::CharDevice), Err(Errno::EPERM));
        assert_eq!(device(FileKind::Fifo), Ok(()));
    }
}
