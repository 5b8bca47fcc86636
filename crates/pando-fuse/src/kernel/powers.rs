//! Supplementary groups and capabilities of a caller, read from `/proc` where they decide.
//!
//! A request names the thread that made it. The thread waits in the kernel until its request is answered, even if it is killed
//! meanwhile. So its number is no other's until then, and what it may do does not change: Linux keeps credentials by thread, and
//! only a thread itself changes its own. An interrupted request is answered early, though, and a thread that was answered may end,
//! or become another program. So what was read counts only if the request is still unanswered *after* it was read.
//!
//! A thread that works for others (`io_uring`, an overlay) may show what is not theirs; it is believed only if it shows the user and
//! group of the request. One that writes asynchronously (`libaio`) does not wait; of a write only an idle setgid depends on this.

use std::fs::File;
use std::io::Read;

use pando_types::{Credentials, Judge, Powers};

use super::adaptor::Inner;
use crate::device::Caller;

/// Longest file of `/proc` that is read, bytes: 65,536 groups take less.
const LENGTH_MAX: u64 = 1 << 20;

/// Whether `/proc` is that of the processes that requests name: of this process's own PID namespace.
pub(super) fn sees_callers() -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    own.is_some_and(|path| path.to_str() == Some(&std::process::id().to_string()))
}

impl Inner {
    /// A caller whose powers are known; none if it cannot be seen, or does not wait any more.
    pub(super) fn powers_of(&self, caller: Caller) -> Option<Credentials> {
        let notifier = self.notifier().filter(|_| self.sees_callers)?;
        let known = known(caller)?;
        notifier.awaits_answer(caller.request).then_some(known)
    }

    /// On whose behalf a request about these nodes is made. Where another group than its first may decide, all that `caller` may is
    /// looked up at once; else when a shard refuses.
    pub(super) fn caller(&self, caller: Caller, nodes: &[u64]) -> Credentials {
        let known = self.memory.may_need_groups(caller, nodes).then(|| self.powers_of(caller));
        let by_kernel = Credentials { uid: caller.uid, gid: caller.gid, judge: Judge::Kernel };
        known.flatten().unwrap_or(by_kernel)
    }
}

/// What the thread shows; none if it is out of sight, or shows other users than its request.
fn known(caller: Caller) -> Option<Credentials> {
    if caller.pid == 0 {
        return None;
    }
    let mut powers = parse_status(&read(caller.pid, "status")?, caller)?;
    powers.users = parse_ranges(&read(caller.pid, "uid_map")?)?;
    powers.groups_known = parse_ranges(&read(caller.pid, "gid_map")?)?;
    let judge = Judge::Powers(Box::new(powers));
    Some(Credentials { uid: caller.uid, gid: caller.gid, judge })
}

fn read(pid: u32, name: &str) -> Option<String> {
    let mut text = String::with_capacity(4096);
    let file = File::open(format!("/proc/{pid}/{name}")).ok()?;
    file.take(LENGTH_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

fn parse_status(status: &str, caller: Caller) -> Option<Powers> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // Real, effective, saved, of the file system.
    let of_files = |name: &str| line(name)?.split_ascii_whitespace().nth(3)?.parse().ok();
    if (of_files("Uid:"), of_files("Gid:")) != (Some(caller.uid), Some(caller.gid)) {
        return None;
    }
    let groups = line("Groups:")?.split_ascii_whitespace().map(|group| group.parse().ok());
    Some(Powers {
        groups: groups.collect::<Option<_>>()?,
        capabilities: u64::from_str_radix(line("CapEff:")?.trim(), 16).ok()?,
        ..Powers::default()
    })
}

/// Lines of a map: the first number inside, the first outside, and how many.
fn parse_ranges(map: &str) -> Option<Vec<(u32, u32)>> {
    let range = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse().ok());
        let [_, first, count] = [numbers.next()??, numbers.next()??, numbers.next()??];
        Some((first, count))
    };
    map.lines().take(Powers::RANGES_MAX).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nUid:\t1\t2\t3\t5\nGid:\t1\t1\t1\t6\nGroups:\t4 24 1000 \nNStgid:\t7\n\
                          CapEff:\t000000000000000a\n";

    #[test]
    fn groups_and_capabilities_are_found_among_the_lines() {
        let caller = Caller { uid: 5, gid: 6, pid: 1, request: 0 };
        let powers = parse_status(STATUS, caller).unwrap();
        assert_eq!((powers.groups, powers.capabilities), (vec![4, 24, 1000], 10));
        assert_eq!(parse_status(STATUS, Caller { uid: 2, ..caller }), None, "works for another");
        assert_eq!(parse_status(STATUS, Caller { gid: 1, ..caller }), None);
        assert_eq!(parse_status("Uid:\t5 5 5 5\nGid: 6 6 6 6\n", caller), None);
    }

    #[test]
    fn ranges_are_as_seen_from_here() {
        let all = parse_ranges("         0          0 4294967295\n");
        assert_eq!(all, Some(vec![(0, 4_294_967_295)]));
        let two = parse_ranges("0 1000 1\n1 100000 65536\n");
        assert_eq!(two, Some(vec![(1000, 1), (100_000, 65536)]));
        assert_eq!((parse_ranges(""), parse_ranges("0 x 1\n")), (Some(vec![]), None));
    }

    #[test]
    fn a_thread_out_of_sight_has_none() {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let of = |pid| known(Caller { uid, gid, pid, request: 0 });
        assert_eq!((of(0), of(u32::MAX)), (None, None));
        assert!(of(std::process::id()).is_some() && sees_callers(), "/proc is needed");
    }
}
