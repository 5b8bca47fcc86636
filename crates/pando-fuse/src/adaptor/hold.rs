//! The hold of a mount: its kernel may remember names and attributes. The mount asks for it, uses
//! it, and gives it up before another session changes anything (docs/design/holds.md).
//!
//! ```text
//!   holds not ──shard 0 says yes──► holds ──another session wants to write──► nothing more is told with a timeout,
//!      ▲                            │  ▲                                       the kernel forgets names and attributes
//!      │                            └──┘ while used, asks again each second,          │
//!      │                                 unless it holds for good                     │
//!      └────────────────────── shard 0 hears of it ◄──────────────────────────────────┘
//! ```

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pando_types::hold::HOLD_TIME;

use crate::adaptor::state::holding::{Ending, Holding};
use crate::adaptor::state::inner::Inner;
use crate::device::notify::Notifier;
use crate::mounting::submounts::has_submounts;
use crate::remembered::memory::{FOR_GOOD, since_boot};

/// How often a session asks to hold, or to go on.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_EVERY_NANOS: u64 = ASK_EVERY.as_nanos() as u64;
/// After this pause a session asks again whether it is recalled, if shard 0 could not say.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// So long after its end a lapse is late, nanoseconds.
const LATE_NANOS: u64 = 100_000_000;
/// How long a mount that ends waits for shard 0 to hear that its kernel remembers nothing.
const END_WITHIN: Duration = Duration::from_secs(1);
/// Pauses between further rounds in which the kernel forgets all attributes. A thread may take in a
/// node after the first round, from an answer that was sent before the recall.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// What shard 0 says to a session that asks to hold.
enum Asked {
    /// It may, until then by the clock of [`since_boot`].
    Yes(u64),
    /// It may not.
    No,
    /// Shard 0 has not answered in time.
    Unknown,
}

/// Why a session does not hold any more.
enum Stayed {
    /// Another one wants to write, or this one could not prolong its time.
    UntilRecalled,
    /// Its time is over.
    UntilItLapsed,
    ToTheEnd,
}

/// The time of a session was over so many nanoseconds ago. If that was noticed late, this process
/// or its machine has slept, and the kernel's timeouts may not be over.
const fn lapsed(ago: u64) -> Stayed {
    if ago < LATE_NANOS { Stayed::UntilItLapsed } else { Stayed::UntilRecalled }
}

impl Holding {
    pub(crate) fn start(inner: &Arc<Inner>) -> std::io::Result<Self> {
        let ending = Arc::new(Ending::default());
        let (inner, told) = (Arc::clone(inner), Arc::clone(&ending));
        let keep = move || {
            inner.wait_for_use(&told);
            while !told.is_ended() {
                inner.hold(&told);
                told.sleep(ASK_EVERY);
                inner.wait_for_use(&told);
            }
        };
        let thread = std::thread::Builder::new().name("pando-hold".to_owned()).spawn(keep)?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Inner {
    /// Asks to hold. If shard 0 agrees, holds until another session wants to write.
    fn hold(&self, ending: &Ending) {
        let namespace = self.fs.namespace();
        self.memory.take_used();
        let until = match self.ask(ending, u64::MAX) {
            Asked::Yes(until) => until,
            // The question may be on its way still.
            Asked::Unknown if ending.is_ended() => return self.leave(ending),
            Asked::Unknown => return,
            Asked::No => return namespace.hold_lapsed(),
        };
        self.memory.hold_until(until, self.newest_request());
        let stayed = self.hold_until_recalled(ending, until);
        self.memory.end_hold();
        match stayed {
            Stayed::ToTheEnd => return self.leave(ending),
            // All that was told has lapsed with it, but listings. Shard 0 counts the same time, and
            // more.
            Stayed::UntilItLapsed => {
                self.forget_listings();
                return namespace.hold_lapsed();
            }
            Stayed::UntilRecalled => {}
        }
        self.forget_listings();
        self.forget_names(ending);
        self.forget_attributes();
        // If the message does not arrive, shard 0 goes by the time; of a local session, that is
        // over.
        let _ = pando_client::block_on(ending.unless_ended(namespace.end_hold()));
        for pause in AGAIN_AFTER {
            ending.sleep(pause);
            self.forget_attributes();
        }
    }

    /// Waits until the mount does something. Shard 0 keeps other sessions waiting for a mount that
    /// holds, and nobody is to wait for one that does nothing.
    fn wait_for_use(&self, ending: &Ending) {
        let is_used = poll_fn(|_| match self.memory.watch_use() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        if !self.fs.namespace().holds_for_good() {
            ending.within_unless_ended(Duration::MAX, pin!(is_used));
        }
    }

    /// The highest number of a request that was read so far.
    fn newest_request(&self) -> u64 {
        self.notifier().map_or(u64::MAX, Notifier::newest_request)
    }

    /// Asks shard 0 whether the kernel may remember. What is counted begins with the question. The
    /// answer is awaited no longer than until `held_until`, by the clock of [`since_boot`]: then
    /// the time is over that the session has.
    fn ask(&self, ending: &Ending, held_until: u64) -> Asked {
        let namespace = self.fs.namespace();
        let asked_at = since_boot();
        let until = match namespace.holds_for_good() {
            true => FOR_GOOD,
            false => asked_at.saturating_add(HOLD_TIME),
        };
        // An answer that comes later is worth nothing.
        let patience = Duration::from_nanos(until.min(held_until).saturating_sub(asked_at));
        match ending.within_unless_ended(patience, pin!(namespace.ask_to_hold())) {
            Some(Ok(true)) => Asked::Yes(until),
            Some(Ok(false)) => Asked::No,
            Some(Err(_)) | None => Asked::Unknown,
        }
    }

    /// The mount is gone, and the session ends. Another one need not wait for its time.
    fn leave(&self, ending: &Ending) {
        let namespace = self.fs.namespace();
        if !namespace.holds_for_good() {
            ending.within(END_WITHIN, pin!(namespace.end_hold()));
        }
    }

    /// Returns when this session holds no more, and why.
    fn hold_until_recalled(&self, ending: &Ending, until: u64) -> Stayed {
        let namespace = self.fs.namespace();
        if !namespace.holds_for_good() {
            return self.hold_for_a_time(ending, until);
        }
        let _ = pando_client::block_on(ending.unless_ended(namespace.recalled()));
        if ending.is_ended() { Stayed::ToTheEnd } else { Stayed::UntilRecalled }
    }

    /// Prolongs the time while the mount is used. A mount that does nothing, or cannot reach shard
    /// 0, lets it lapse.
    fn hold_for_a_time(&self, ending: &Ending, mut until: u64) -> Stayed {
        let namespace = self.fs.namespace();
        let mut asked_at = since_boot();
        loop {
            let now = since_boot();
            if ending.is_ended() {
                return Stayed::ToTheEnd;
            }
            if now >= until {
                return lapsed(now - until);
            }
            if now - asked_at >= ASK_EVERY_NANOS && self.memory.take_used() {
                asked_at = now;
                match self.ask(ending, until) {
                    // It did not hold meanwhile.
                    Asked::Yes(_) if since_boot() >= until => return Stayed::UntilRecalled,
                    Asked::Yes(later) => {
                        until = later;
                        self.memory.hold_until(until, self.newest_request());
                    }
                    Asked::No => return Stayed::UntilRecalled,
                    Asked::Unknown => {}
                }
                continue;
            }
            // Shard 0 answers when another session wants to write, and after a while in any case.
            let patience = Duration::from_nanos(until - now);
            match ending.within_unless_ended(patience, pin!(namespace.is_recalled())) {
                Some(Ok(true)) => return Stayed::UntilRecalled,
                Some(Ok(false)) | None => {}
                Some(Err(_)) => ending.sleep(LOOK_EVERY.min(patience)),
            }
        }
    }

    /// Makes the kernel look up each name anew. Waits until that is so: at once, or when all
    /// timeouts have passed.
    fn forget_names(&self, ending: &Ending) {
        // The kernel would detach mounts below along with their names. An overlay would lose its
        // layers.
        let has_submounts =
            self.device().is_none_or(|device| has_submounts(device).unwrap_or(true));
        let forgets = |notifier: &Notifier| !has_submounts && notifier.forget_names().is_ok();
        if !self.notifier().is_some_and(forgets) {
            // The kernel rounds up to its own unit of time, hence the extra time.
            ending.sleep(self.memory.names_kept() + Duration::from_millis(50));
        }
    }

    fn forget_attributes(&self) {
        let Some(notifier) = self.notifier() else { return };
        for ino in self.fs.namespace().known() {
            // A node that the kernel does not know any more has nothing to forget.
            let _ = notifier.forget_attributes(ino.0);
        }
    }
}
