//! Callers of the operations.

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// Owner of the files that operations act on.
pub const OWNER: u32 = 61_001;
/// Group of these files.
pub const GROUP: u32 = 62_001;
/// A user who does not own them.
pub const OTHER: u32 = 61_002;
/// A group that they do not have.
pub const OTHER_GROUP: u32 = 62_002;

/// A caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actor {
    pub name: &'static str,
    pub uid: u32,
    gid: u32,
    groups: &'static [u32],
    pub has_fsetid: bool,
}

const NOBODY: Actor =
    Actor { name: "", uid: OTHER, gid: OTHER_GROUP, groups: &[], has_fsetid: false };

pub const STRANGER: Actor = Actor { name: "stranger", ..NOBODY };
pub const ROOT: Actor = Actor { name: "root", uid: 0, gid: 0, has_fsetid: true, ..NOBODY };
pub const FORMER_OWNER: Actor = Actor { name: "owner, not of the group", uid: OWNER, ..NOBODY };

pub const ACTORS: [Actor; 10] = [
    Actor { name: "owner", uid: OWNER, gid: GROUP, ..NOBODY },
    FORMER_OWNER,
    Actor { name: "owner, of the group besides", uid: OWNER, groups: &[GROUP], ..NOBODY },
    Actor { name: "member", gid: GROUP, ..NOBODY },
    Actor { name: "member besides", groups: &[GROUP], ..NOBODY },
    STRANGER,
    Actor { name: "stranger with CAP_FSETID", has_fsetid: true, ..NOBODY },
    Actor { name: "owner with CAP_FSETID", uid: OWNER, has_fsetid: true, ..NOBODY },
    ROOT,
    Actor { name: "root without CAP_FSETID", has_fsetid: false, ..ROOT },
];

impl Actor {
    /// Whether the actor owns the file, or is root.
    pub fn may_change_owner(&self) -> bool {
        self.uid == 0 || self.uid == OWNER
    }

    /// Runs `work` as the actor, in a thread of its own.
    pub fn act<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.become_it();
                work()
            });
            thread.join().unwrap()
        })
    }

    /// Gives this thread the actor's user, groups and capabilities.
    fn become_it(&self) {
        let all = capabilities(None).unwrap().permitted;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let groups: Vec<_> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        set_keep_capabilities(true).unwrap();
        set_thread_groups(&groups).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        let others =
            if self.uid == 0 { all - CapabilitySet::FSETID } else { CapabilitySet::empty() };
        let fsetid = if self.has_fsetid { CapabilitySet::FSETID } else { CapabilitySet::empty() };
        let caps = others | fsetid;
        let inheritable = CapabilitySet::empty();
        let sets = CapabilitySets { effective: caps, permitted: caps, inheritable };
        set_capabilities(None, sets).unwrap();
    }
}
