//! What is agreed with the kernel at the beginning.
//!
//! - `PARALLEL_DIROPS`: lookups and listings of one directory need not wait for each other;
//! - `ATOMIC_O_TRUNC`: `open(O_TRUNC)` is one request, so that truncation is part of the open;
//! - `DO_READDIRPLUS` with `READDIRPLUS_AUTO`: attributes ride on a listing when the kernel guesses
//!   they are wanted; only with timeouts above zero, since without them the kernel would ask for
//!   each attribute again;
//! - `HANDLE_KILLPRIV_V2`: setuid and setgid are taken off by us on write, truncation and change of
//!   owner. Left to the kernel, it would ask for an extended attribute before each write, and
//!   change the mode in the name of the writer, who need not be the owner;
//! - `MAX_PAGES`, `BIG_WRITES`: a write brings up to 1 MiB;
//! - not `ASYNC_DIO`: with it the kernel drops the pages that it has of what is written before the
//!   write has reached us, and not once it has, so that a buffered reader beside AIO with
//!   `O_DIRECT` puts old bytes back (xfstests generic/451). Without, such a write is over when it
//!   is submitted;
//! - `NO_EXPORT_SUPPORT`: a file handle cannot be opened once the kernel has forgotten its node, so
//!   `name_to_handle_at` says `EOPNOTSUPP` at once;
//! - not `WRITEBACK_CACHE`: a write reaches us at once, so that size and times are ours;
//! - `POSIX_LOCKS`, `FLOCK_LOCKS` for a file system that keeps locks: else the kernel does, within
//!   the mount.

use super::abi::{self, init};
use super::request::InitRequest;

/// Largest `write` request, bytes.
pub const WRITE_SIZE_MAX: u32 = 1 << 20;
/// Unit of `max_pages`, bytes. On machines with larger pages this asks for more than needed, which
/// the kernel cuts.
const PAGE_SIZE: u32 = 4096;
/// Requests the kernel may have under way in the background (readahead, releases).
const BACKGROUND_MAX: u16 = 256;
/// Beyond this many it considers us congested.
const CONGESTION: u16 = BACKGROUND_MAX / 4 * 3;

/// What to do about an INIT.
#[derive(Clone, Copy, Debug)]
pub(super) enum Agreement {
    /// Answer so, and begin.
    Agreed(abi::InitOut),
    /// Answer so; the kernel then begins anew with a major version we know.
    Again(abi::InitOut),
    /// Its version is too old.
    TooOld,
}

/// Agrees, with listings that carry attributes or without, and locks or without.
pub(super) fn agree(offer: &InitRequest, readdir_plus: bool, file_locks: bool) -> Agreement {
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
    if readdir_plus {
        wanted |= init::DO_READDIRPLUS | init::READDIRPLUS_AUTO;
    }
    if file_locks {
        wanted |= init::POSIX_LOCKS | init::FLOCK_LOCKS;
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

    #[test]
    fn only_what_is_offered_is_asked_for() {
        let offer = InitRequest { major: 7, minor: 31, max_readahead: 1 << 17, flags: u64::MAX };
        let Agreement::Agreed(out) = agree(&offer, false, false) else { panic!("agreed") };
        assert_eq!((out.major, out.minor, out.max_pages), (7, 31, 256));
        let locks = init::POSIX_LOCKS | init::FLOCK_LOCKS;
        let async_dio = 1 << 15;
        assert_eq!(u64::from(out.flags) & (init::DO_READDIRPLUS | locks | async_dio), 0);
        let Agreement::Agreed(out) = agree(&offer, false, true) else { panic!("agreed") };
        assert_eq!(u64::from(out.flags) & locks, locks);
        let Agreement::Agreed(out) =
            agree(&InitRequest { flags: 0, minor: 99, ..offer }, true, true)
        else {
            panic!("agreed")
        };
        assert_eq!((out.minor, out.flags), (abi::MINOR, 0));
    }

    #[test]
    fn other_versions_are_refused_or_asked_again() {
        let offer = InitRequest { major: 8, minor: 0, max_readahead: 0, flags: 0 };
        assert!(matches!(agree(&offer, false, false), Agreement::Again(out) if out.major == 7));
        for (major, minor) in [(7, 30), (6, 99)] {
            let offer = InitRequest { major, minor, ..offer };
            assert!(matches!(agree(&offer, false, false), Agreement::TooOld));
        }
    }
}
