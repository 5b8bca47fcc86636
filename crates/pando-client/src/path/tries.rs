//! How often a path is walked before its caller hears that it keeps changing.
//!
//! | walk | remembers | if it is refused as stale, or a directory is gone |
//! |---|---|---|
//! | 1 | what is cached | the news have dropped what they name; the last directory is dropped, too |
//! | 2 | what is cached | all directories on the path are dropped |
//! | 3 … 8 | nothing; but a directory that was renamed since this walk has read it is still refused | begins anew |
//! | 9 … 12 | nothing, and its requests carry no trail | begins anew; in the end `ENOENT` |
//!
//! Each refusal means that another client has meanwhile renamed a directory on the path, or changed
//! its search permissions. The last walks are what Linux does: each component existed at some
//! moment of the call, though perhaps not all at one. If a directory that such a walk has found is
//! gone when it is asked, it was removed meanwhile. At that moment the path led nowhere.

use std::sync::atomic::{AtomicBool, Ordering};

use pando_types::{Credentials, Errno};

use crate::client::Client;
use crate::path::walk::{Memory, Walk};

/// Number of walks that use what is cached.
const CACHED_MAX: u32 = 2;
/// Walks after which requests carry no trail any more.
const TRAILED_MAX: u32 = 8;
/// Most walks of a call.
const WALKS_MAX: u32 = 12;

/// The walks of one call.
pub(super) struct Tries<'a> {
    client: &'a Client,
    credentials: &'a Credentials,
    walks: u32,
    /// Whether the last walk had no trail.
    is_loose: &'a AtomicBool,
}

impl<'a> Tries<'a> {
    pub(super) const fn new(
        client: &'a Client,
        credentials: &'a Credentials,
        is_loose: &'a AtomicBool,
    ) -> Self {
        Self { client, credentials, walks: 0, is_loose }
    }

    /// Begins the next walk.
    pub(super) fn walk(&mut self) -> Walk<'a> {
        self.walks += 1;
        let memory = match self.walks {
            1..=CACHED_MAX => Memory::Cached,
            ..=TRAILED_MAX => Memory::Trail,
            _ => Memory::None,
        };
        self.is_loose.store(memory == Memory::None, Ordering::Relaxed);
        Walk::new(self.client, self.credentials, memory)
    }

    /// The call's result; `None` if it must walk again.
    pub(super) fn settle<T>(
        &self,
        walk: &Walk<'_>,
        result: Result<T, Errno>,
    ) -> Option<Result<T, Errno>> {
        if !matches!(result, Err(Errno::ESTALE)) {
            return Some(result);
        }
        if self.walks >= WALKS_MAX {
            return Some(Err(Errno::ENOENT));
        }
        let dirs = walk.dirs();
        let last = dirs.len().saturating_sub(1);
        self.client.paths.forget(if self.walks == 1 { &dirs[last..] } else { dirs });
        None
    }
}

/// Walks until the result does not depend on a path that has changed. `?` in the body ends one
/// walk.
macro_rules! walked {
    ($paths:expr, $walk:ident => $body:expr) => {{
        let mut tries =
            $crate::path::tries::Tries::new($paths.client, &$paths.credentials, &$paths.is_loose);
        loop {
            let mut $walk = tries.walk();
            let result = async { $body }.await;
            if let Some(result) = tries.settle(&$walk, result) {
                break result;
            }
        }
    }};
}
pub(super) use walked;
