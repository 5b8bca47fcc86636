//! How a request ends.

use pando_types::Errno;
use pando_types::reply::{Body, Improper};

/// How an operation failed, as far as its caller must tell cases apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The final answer.
    Errno(Errno),
    /// The request may have run, or may yet.
    Unsure(Errno),
    /// The inode is not at the place that was asked.
    NotThere,
    /// The data version is not the one that the request named, or an object belongs to another
    /// session.
    DataChanged,
    /// The session of the request is over ([`Via::In`] only).
    Over,
    /// A directory on the request's trail has changed.
    Stale,
}

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Errno(errno) | Failure::Unsure(errno) => errno,
            Failure::NotThere | Failure::Stale => Self::ESTALE,
            Failure::DataChanged | Failure::Over => Self::EIO,
        }
    }
}

/// Why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// The caller's patience ran out. The request may have run, or may yet.
    TimedOut,
    /// Shards redirect the request in circles, and a copy was lost.
    Astray,
    /// The transport is stopped, or the client closed.
    Stopped,
}

impl From<Unanswered> for Errno {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::TimedOut => Self::ETIMEDOUT,
            Unanswered::Astray | Unanswered::Stopped => Self::EIO,
        }
    }
}

/// How chasing a request ended.
pub(crate) enum Answer {
    /// With a final answer.
    Final(Result<Body, Failure>),
    /// The session is over.
    NoSession,
}

/// What the caller hears of a request that a shard finds improper.
pub(crate) const fn errno_of(improper: Improper) -> Errno {
    match improper {
        Improper::NotOwner => Errno::EPERM,
        Improper::Sessions => Errno::EAGAIN,
        Improper::Unnumbered | Improper::Slot | Improper::ForeignObject | Improper::TooMuch => {
            Errno::EINVAL
        }
    }
}

/// Takes the value of a reply's body. A body of another form is an error of the shard's: `EIO`.
macro_rules! take {
    ($body:expr, $pattern:pat => $value:expr) => {
        match $body {
            $pattern => Ok($value),
            _ => Err(Errno::EIO),
        }
    };
}
pub(crate) use take;

/// The errno of a missing inode that was asked for by number.
pub(crate) const fn stale(errno: Errno) -> Errno {
    match errno {
        Errno::ENOENT => Errno::ESTALE,
        other => other,
    }
}
