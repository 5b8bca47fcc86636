//! What a session agrees on with the kernel when a mount begins.
//!
//! - `PARALLEL_DIROPS`: lookups and listings of one directory need not wait for each other.
//! - `ATOMIC_O_TRUNC`: `open(O_TRUNC)` is one request, so the truncation is part of the open.
//! - `DO_READDIRPLUS` with `READDIRPLUS_AUTO`: a listing carries attributes when the kernel guesses
//!   that they are wanted. This needs timeouts above zero. With a zero timeout the kernel would ask
//!   for each attribute again.
//! - `HANDLE_KILLPRIV_V2`: this side takes off setuid and setgid on a write, a truncation and a
//!   change of owner. The kernel would otherwise ask for an extended attribute before each write.
//!   It would also change the mode in the name of the writer, which need not be the owner.
//! - `MAX_PAGES`, `BIG_WRITES`: a write brings up to 1 MiB.
//! - `ASYNC_DIO` is not set. With it, the kernel drops the pages of a direct write before the write
//!   has reached this side, and not after. A buffered reader beside AIO with `O_DIRECT` would put
//!   old bytes back (xfstests generic/451). Without it, such a write is over when it is submitted.
//! - `NO_EXPORT_SUPPORT`: a file handle cannot be opened once the kernel has forgotten its node. So
//!   `name_to_handle_at` fails with `EOPNOTSUPP` at once.
//! - `WRITEBACK_CACHE` is not set. A write reaches this side at once, so size and times are decided
//!   here.
//! - `OVER_IO_URING`: requests come by rings, if this side has made some.
//! - `POSIX_LOCKS`, `FLOCK_LOCKS`: for a file system that keeps locks. Otherwise the kernel keeps
//!   them, within the mount.

use crate::protocol::abi::{self, init};
use crate::protocol::operation::InitRequest;

/// Largest `write` request, bytes.
pub const WRITE_SIZE_MAX: u32 = 1 << 20;
/// Unit of `max_pages`, bytes. On machines with larger pages this asks for more than needed, and
/// the kernel reduces it.
const PAGE_SIZE: u32 = 4096;
/// Number of requests that the kernel may have in the background, such as readahead and releases.
const BACKGROUND_MAX: u16 = 256;
/// Number of background requests from which the kernel considers the mount congested.
const CONGESTION: u16 = BACKGROUND_MAX / 4 * 3;

/// Result of an INIT.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Agreement {
    /// Send this answer and begin.
    Agreed(abi::InitOut),
    /// Send this answer. The kernel then begins anew with a major version that is known here.
    Again(abi::InitOut),
    /// The kernel's version is too old.
    TooOld,
}

/// What a file system can do, of what a kernel may offer.
#[derive(Clone, Copy)]
pub(crate) struct Abilities {
    /// Listings carry attributes.
    pub(crate) readdir_plus: bool,
    /// The file system keeps locks.
    pub(crate) file_locks: bool,
    /// There are rings for requests.
    pub(crate) rings: bool,
}

/// Decides on an INIT.
pub(crate) fn agree(offer: &InitRequest, able: Abilities) -> Agreement {
    let version = abi::InitOut { major: abi::MAJOR, minor: abi::MINOR, ..Default::default() };
    if offer.major > abi::MAJOR {
        return Agreement::Again(version);
    }
    if offer.major < abi::MAJOR || offer.minor < abi::MINOR_OLDEST {
        return Agreement::TooOld;
    }
    let mut wanted = init::ASYNC_READ
        | init::ATOMIC_O_TRUNC
        | init::BIG_WRITES
        | init::PARALLEL_DIROPS
        | init::MAX_PAGES
        | init::HANDLE_KILLPRIV_V2
        | init::INIT_EXT
        | init::NO_EXPORT_SUPPORT;
    if able.readdir_plus {
        wanted |= init::DO_READDIRPLUS | init::READDIRPLUS_AUTO;
    }
    if able.file_locks {
        wanted |= init::POSIX_LOCKS | init::FLOCK_LOCKS;
    }
    if able.rings {
        wanted |= init::OVER_IO_URING;
    }
    let flags = wanted & offer.flags;
    Agreement::Agreed(abi::InitOut {
        minor: offer.minor.min(abi::MINOR),
        max_readahead: offer.max_readahead,
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: BACKGROUND_MAX,
        congestion_threshold: CONGESTION,
        max_write: WRITE_SIZE_MAX,
        time_gran: 1,
        max_pages: (WRITE_SIZE_MAX / PAGE_SIZE) as u16,
        ..version
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Abilities = Abilities { readdir_plus: false, file_locks: false, rings: false };
    const LOCKS: Abilities = Abilities { file_locks: true, ..NONE };
    const ALL: Abilities = Abilities { readdir_plus: true, file_locks: true, rings: true };

    #[test]
    fn only_what_is_offered_is_asked_for() {
        let offer = InitRequest { major: 7, minor: 31, max_readahead: 1 << 17, flags: u64::MAX };
        let Agreement::Agreed(out) = agree(&offer, NONE) else { panic!("agreed") };
        assert_eq!((out.major, out.minor, out.max_pages), (7, 31, 256));
        let locks = init::POSIX_LOCKS | init::FLOCK_LOCKS;
        let async_dio = 1 << 15;
        assert_eq!(u64::from(out.flags) & (init::DO_READDIRPLUS | locks | async_dio), 0);
        let Agreement::Agreed(out) = agree(&offer, LOCKS) else { panic!("agreed") };
        assert_eq!(u64::from(out.flags) & locks, locks);
        let Agreement::Agreed(out) = agree(&InitRequest { flags: 0, minor: 99, ..offer }, ALL)
        else {
            panic!("agreed")
        };
        assert_eq!((out.minor, out.flags), (abi::MINOR, 0));
    }

    #[test]
    fn other_versions_are_refused_or_asked_again() {
        let offer = InitRequest { major: 8, minor: 0, max_readahead: 0, flags: 0 };
        assert!(matches!(agree(&offer, NONE), Agreement::Again(out) if out.major == 7));
        for (major, minor) in [(7, 30), (6, 99)] {
            let offer = InitRequest { major, minor, ..offer };
            assert!(matches!(agree(&offer, NONE), Agreement::TooOld));
        }
    }
}
