//! Supplementary groups and capabilities of a caller, read from `/proc` where they decide.
//!
//! 1. A request names the thread that made it. The thread waits in the kernel until its request is
//!    answered, even if it is killed meanwhile. Until then no other thread has its number. Its
//!    powers do not change, since only a thread itself changes its credentials.
//! 2. An interrupted request is answered early. Its thread may then end, or become another program.
//!    So what was read counts only if the request is still unanswered *after* the reading.
//! 3. A thread that works for others (`io_uring`, an overlay) may show powers of its own. It is
//!    believed only if it shows the user and group of the request.
//! 4. A thread that writes asynchronously (`libaio`) does not wait. For a write, only a setgid bit
//!    without group execution depends on this.
//! 5. `/proc` shows numbers as this process's user namespace has them. If the namespace lacks some
//!    groups, these are shown as the overflow group. That may also be a real group, so it never
//!    counts.
//! 6. The map of this process's own namespace is shown in numbers of the namespace around it.
//!    Requests do not count by these.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use pando_types::{Credentials, Judge, Powers};

use crate::protocol::request::Caller;

/// Longest file of `/proc` that is read, bytes. 65,536 groups take less.
const LENGTH_MAX: u64 = 1 << 20;
/// The map of a namespace that has all users, or all groups.
const WHOLE: [Line; 1] = [Line { inside: 0, outside: 0, count: u32::MAX }];
/// The overflow group, unless the machine has another.
const OVERFLOW: u32 = 65_534;

/// How this process sees callers in `/proc`. `None` inside if its user namespace has all users and
/// groups.
pub(crate) struct Sight(Option<Part>);

/// A user namespace that lacks some users or groups.
struct Part {
    namespace: PathBuf,
    /// The group that missing groups are shown as.
    overflow: u32,
}

impl Sight {
    /// Finds out how callers are seen. `None` if `/proc` is not of this process's own PID
    /// namespace, which requests count by.
    pub(crate) fn new() -> Option<Self> {
        let own = fs::read_link("/proc/self").ok()?;
        if own.to_str() != Some(&std::process::id().to_string()) {
            return None;
        }
        let is_whole = |name| {
            let map = fs::read_to_string(format!("/proc/self/{name}")).ok();
            map.and_then(|map| parse_map(&map)).is_some_and(|map| map == WHOLE)
        };
        if is_whole("uid_map") && is_whole("gid_map") {
            return Some(Self(None));
        }
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowgid").ok();
        let overflow = overflow.and_then(|number| number.trim().parse().ok()).unwrap_or(OVERFLOW);
        Some(Self(Some(Part { namespace: fs::read_link("/proc/self/ns/user").ok()?, overflow })))
    }

    /// Whether this caller is in this process's own user namespace, for which maps show numbers of
    /// the namespace around it. `None` if that is unknown.
    fn is_of_own(&self, caller: Caller) -> Option<bool> {
        let Some(part) = &self.0 else { return Some(false) };
        let namespace = fs::read_link(format!("/proc/{}/ns/user", caller.pid)).ok()?;
        Some(namespace == part.namespace)
    }
}

/// The powers that the thread shows. `None` if it is not visible, or shows another user or group
/// than its request.
pub(crate) fn known(sight: &Sight, caller: Caller) -> Option<Credentials> {
    if caller.pid == 0 {
        return None;
    }
    let mut powers = parse_status(&read(caller.pid, "status")?, caller)?;
    if let Some(part) = &sight.0 {
        powers.groups.retain(|group| *group != part.overflow);
    }
    // Without known ranges, the caller's capabilities hold for no file.
    if let Some(is_own) = sight.is_of_own(caller) {
        powers.users = ranges(&parse_map(&read(caller.pid, "uid_map")?)?, is_own);
        powers.groups_known = ranges(&parse_map(&read(caller.pid, "gid_map")?)?, is_own);
    }
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
    // Fields: real, effective, saved, file system.
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

/// A line of a map: the first number inside, the first outside, and their count.
#[derive(PartialEq, Eq, Debug)]
struct Line {
    inside: u32,
    outside: u32,
    count: u32,
}

fn parse_map(map: &str) -> Option<Vec<Line>> {
    let range = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse().ok());
        let mut next = || numbers.next()?;
        Some(Line { inside: next()?, outside: next()?, count: next()? })
    };
    map.lines().take(Powers::RANGES_MAX).map(range).collect()
}

/// Ranges of a namespace in the numbers that requests use. These are the numbers outside, except
/// for this process's own namespace. Ranges that do not exist outside are left out.
fn ranges(map: &[Line], is_own: bool) -> Vec<(u32, u32)> {
    let first = |line: &Line| (if is_own { line.inside } else { line.outside }, line.count);
    map.iter().map(first).filter(|(first, _)| *first != u32::MAX).collect()
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
    fn ranges_are_as_requests_count_them() {
        let parsed = |map, is_own| parse_map(map).map(|map| ranges(&map, is_own));
        let all = "         0          0 4294967295\n";
        assert_eq!(parsed(all, false), Some(vec![(0, 4_294_967_295)]));
        assert_eq!(parse_map(all).unwrap(), WHOLE);
        let two = "0 1000 1\n1 100000 65536\n";
        assert_eq!(parsed(two, false), Some(vec![(1000, 1), (100_000, 65536)]));
        // This process's own namespace. The numbers outside belong to the namespace around it, so
        // users from 100,000 on are not in it.
        assert_eq!(parsed(two, true), Some(vec![(0, 1), (1, 65536)]));
        // A range of users that this process's namespace does not have.
        assert_eq!(parsed("0 4294967295 65536\n1 7 1\n", false), Some(vec![(7, 1)]));
        assert_eq!((parsed("", false), parsed("0 x 1\n", false)), (Some(vec![]), None));
    }

    #[test]
    fn what_the_overflow_group_stands_for_is_no_callers_group() {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let caller = Caller { uid, gid, pid: std::process::id(), request: 0 };
        let groups = |sight| match known(&sight, caller).unwrap().judge {
            Judge::Powers(powers) => (powers.groups, powers.users),
            judge => panic!("{judge:?}"),
        };
        let own = fs::read_link("/proc/self/ns/user").unwrap();
        // Treats each of this process's own groups as the overflow group.
        let (seen, users) = groups(Sight(None));
        for overflow in seen.iter().copied().chain([OVERFLOW]) {
            let part = Part { namespace: own.clone(), overflow };
            let (left, inside) = groups(Sight(Some(part)));
            let others: Vec<_> = seen.iter().copied().filter(|group| *group != overflow).collect();
            assert_eq!(left, others);
            assert_eq!(inside.len(), users.len());
        }
    }

    /// As Linux's `capable_wrt_inode_uidgid` decides.
    #[test]
    fn a_capability_is_over_files_with_a_user_and_a_group_that_the_namespace_has() {
        let map = ranges(&parse_map("0 1000 1\n1 100000 10\n").unwrap(), false);
        let powers =
            Powers { capabilities: 2, users: map.clone(), groups_known: map, ..Powers::default() };
        let over = |uid, gid| powers.over(pando_types::Capability::DacOverride, uid, Some(gid));
        assert!(over(1000, 1000) && over(100_009, 100_000) && over(1000, 100_000));
        assert!(!over(1000, 0) && !over(0, 1000) && !over(100_010, 1000) && !over(65_534, 65_534));
    }

    #[test]
    fn a_thread_out_of_sight_has_none() {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let sight = Sight::new().expect("/proc is needed");
        let of = |pid| known(&sight, Caller { uid, gid, pid, request: 0 });
        assert_eq!((of(0), of(u32::MAX)), (None, None));
        assert!(of(std::process::id()).is_some());
    }
}
