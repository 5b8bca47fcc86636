//! On whose behalf a request runs. FUSE tells user, group and process; supplementary groups are read from `/proc`.
//!
//! They are read anew each time: a process may change them at any moment, and whoever gave a group up must not keep its
//! rights. For root nobody asks.

use std::io::Read;

use pando_types::Credentials;

/// Credentials of process (or thread) `pid`, whose effective user and group are `uid` and `gid`. A process that is gone,
/// or out of sight in another container, has no supplementary groups.
#[must_use]
pub fn credentials_of(uid: u32, gid: u32, pid: u32) -> Credentials {
    let groups = if uid == 0 || pid == 0 { None } else { groups_of(pid) };
    Credentials { uid, gid, groups: groups.unwrap_or_default() }
}

fn groups_of(pid: u32) -> Option<Vec<u32>> {
    let mut status = Vec::with_capacity(4096);
    std::fs::File::open(format!("/proc/{pid}/status")).ok()?.read_to_end(&mut status).ok()?;
    parse_groups(&status)
}

fn parse_groups(status: &[u8]) -> Option<Vec<u32>> {
    let line = status.split(|&byte| byte == b'\n').find_map(|l| l.strip_prefix(b"Groups:"))?;
    let words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    words.map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_among_the_lines() {
        let status = b"Name:\tx\nUmask:\t0022\nGid:\t1\t1\t1\t1\nFDSize:\t64\nGroups:\t4 24 1000 \nNStgid:\t7\n";
        assert_eq!(parse_groups(status), Some(vec![4, 24, 1000]));
        assert_eq!(parse_groups(b"Groups:\t \n"), Some(Vec::new()));
        assert_eq!(parse_groups(b"Name:\tx\n"), None);
    }

    #[test]
    fn who_is_gone_has_no_groups() {
        let gone = credentials_of(5, 6, u32::MAX);
        assert_eq!(gone, Credentials { uid: 5, gid: 6, groups: Vec::new() });
        assert!(groups_of(std::process::id()).is_some(), "/proc is needed");
    }
}
