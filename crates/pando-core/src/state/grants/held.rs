//! One grant, and one session that has grants, as the shard remembers them.

use pando_types::Lsn;
use pando_types::lend::Standing;

use crate::records::record::Grant;

/// Time after which a holder that has not been heard of does not use its parts any more,
/// nanoseconds. It is longer than the holder counts ([`HOLD`](pando_types::lend::HOLD)), because
/// clocks run at different rates.
pub const FENCE_AFTER: u64 = 9_000_000_000;

/// Most grants that one tick ends.
pub const AT_ONCE: usize = 32;

/// A grant, with what no record tells.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its record.
    pub grant: Grant,
    /// When it was given, or the shard started.
    pub since: u64,
    /// Whether, and since when, somebody wants the part.
    pub recalled: Option<Recall>,
}

/// That somebody wants a part which is lent.
#[derive(Clone, Copy, Debug)]
pub struct Recall {
    /// Since when.
    pub at: u64,
    /// When its holder does not use it any more, whatever becomes of its process.
    ///
    /// 1. No answer that the holder got before the recall lets it go on beyond that.
    /// 2. Every later answer tells it of the recall.
    pub fence_at: u64,
}

/// A session that has grants here.
#[derive(Clone, Copy, Default, Debug)]
pub struct Holder {
    /// When it was last told that it may go on using its parts.
    pub heard: u64,
    /// Until when its question waits for news, if one waits.
    pub waits_until: Option<u64>,
    /// How many questions are to be answered though there are no news.
    pub due: usize,
    /// Number of its grants.
    pub count: usize,
    /// Number of its read grants.
    pub reads: usize,
    /// Where in the log it is recorded that it has read grants.
    pub reader_at: Lsn,
}

/// When a holder does not use any more what was given at `since` and is wanted at `now`, whatever
/// becomes of its process.
pub fn fence_after(since: u64, holder: Holder, now: u64) -> u64 {
    since.max(holder.heard).saturating_add(FENCE_AFTER).max(now)
}

impl Held {
    /// Whether the holder is to give the part back: somebody wants it, or an element was refused.
    pub const fn is_wanted(&self) -> bool {
        self.recalled.is_some() || matches!(self.grant.standing, Standing::Refused)
    }

    /// Notes that somebody wants the part. `None`: that is known.
    pub fn recall(&mut self, holder: Holder, now: u64) -> Option<Recall> {
        if self.recalled.is_some() {
            return None;
        }
        let recall = Recall { at: now, fence_at: fence_after(self.since, holder, now) };
        self.recalled = Some(recall);
        Some(recall)
    }
}
