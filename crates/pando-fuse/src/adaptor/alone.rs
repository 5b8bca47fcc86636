//! The state of being alone on the volume: the session asks for it, uses it, and gives it up before
//! another session begins (docs/design/alone.md).
//!
//! ```text
//!   several ──shard 0 says yes──► alone ──another session wants to begin──► nothing more is told with a timeout,
//!      ▲                          │  ▲                                       the kernel forgets names and attributes
//!      │                          └──┘ while used, asks again each second,          │
//!      │                               unless it is alone for good                  │
//!      └───────────────────── shard 0 hears of it ◄─────────────────────────────────┘
//! ```

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pando_types::op::ALONE_HOLD;

use crate::adaptor::state::inner::Inner;
use crate::adaptor::state::keeper::{Ending, Keeper};
use crate::device::notify::Notifier;
use crate::mounting::submounts::has_submounts;
use crate::remembered::memory::{FOR_GOOD, since_boot};

/// How often a session asks to be alone, or to stay so.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_EVERY_NANOS: u64 = ASK_EVERY.as_nanos() as u64;
/// How often a session that is alone for a time looks whether another one wants to begin.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// So long after its end a lapse is late, nanoseconds.
const LATE_NANOS: u64 = 100_000_000;
/// How long a mount that ends waits for shard 0 to hear that its kernel remembers nothing.
const END_WITHIN: Duration = Duration::from_secs(1);
/// Pauses between further rounds in which the kernel forgets all attributes. A thread may take in a
/// node after the first round, from an answer that was sent before the recall.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// What shard 0 says to a session that asks to be alone.
enum Asked {
    /// It is, until then by the clock of [`since_boot`].
    Yes(u64),
    /// It is not.
    No,
    /// Shard 0 has not answered in time.
    Unknown,
}

/// Why a session is not alone any more.
enum Stayed {
    /// Another one wants to begin, or this one could not prolong its time.
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

impl Keeper {
    pub(crate) fn start(inner: &Arc<Inner>) -> std::io::Result<Self> {
        let ending = Arc::new(Ending::default());
        let (inner, told) = (Arc::clone(inner), Arc::clone(&ending));
        let keep = move || {
            while !told.is_ended() {
                inner.be_alone(&told);
                told.sleep(ASK_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("pando-alone".to_owned()).spawn(keep)?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Inner {
    /// Asks to be alone. If shard 0 agrees, stays alone until another session wants to begin.
    fn be_alone(&self, ending: &Ending) {
        let namespace = self.fs.namespace();
        // Shard 0 keeps more sessions waiting for a mount that is alone. Nobody is to wait for one
        // that does nothing.
        if !namespace.is_alone_for_good() && !self.memory.take_used() {
            return;
        }
        let until = match self.ask_alone(ending) {
            Asked::Yes(until) => until,
            // The question may be on its way still.
            Asked::Unknown if ending.is_ended() => return self.leave(ending),
            _ => return,
        };
        self.memory.be_alone_until(until, self.newest_request());
        let stayed = self.stay_alone(ending, until);
        self.memory.end_alone();
        match stayed {
            Stayed::ToTheEnd => return self.leave(ending),
            // All that was told has lapsed with it. Shard 0 counts the same time, and more.
            Stayed::UntilItLapsed => return,
            Stayed::UntilRecalled => {}
        }
        self.forget_listings();
        self.forget_names(ending);
        self.forget_attributes();
        // If the message does not arrive, the session is over, and with it the state of being
        // alone.
        let _ = pando_client::block_on(ending.unless_ended(namespace.end_alone()));
        for pause in AGAIN_AFTER {
            ending.sleep(pause);
            self.forget_attributes();
        }
    }

    /// The highest number of a request that was read so far.
    fn newest_request(&self) -> u64 {
        self.notifier().map_or(u64::MAX, Notifier::newest_request)
    }

    /// Asks shard 0 to be alone. What is counted begins with the question.
    fn ask_alone(&self, ending: &Ending) -> Asked {
        let namespace = self.fs.namespace();
        let asked_at = since_boot();
        let until = match namespace.is_alone_for_good() {
            true => FOR_GOOD,
            false => asked_at.saturating_add(ALONE_HOLD),
        };
        // An answer that comes later is worth nothing.
        let patience = Duration::from_nanos(until.saturating_sub(asked_at));
        match ending.within_unless_ended(patience, pin!(namespace.ask_alone())) {
            Some(Ok(true)) => Asked::Yes(until),
            Some(Ok(false)) => Asked::No,
            Some(Err(_)) | None => Asked::Unknown,
        }
    }

    /// The mount is gone, and the session ends. Another one need not wait for its time.
    fn leave(&self, ending: &Ending) {
        let namespace = self.fs.namespace();
        if !namespace.is_alone_for_good() {
            ending.within(END_WITHIN, pin!(namespace.end_alone()));
        }
    }

    /// Returns when this session has to be one of several, and why.
    fn stay_alone(&self, ending: &Ending, until: u64) -> Stayed {
        let namespace = self.fs.namespace();
        if !namespace.is_alone_for_good() {
            return self.stay_alone_for_a_time(ending, until);
        }
        let _ = pando_client::block_on(ending.unless_ended(namespace.recalled()));
        if ending.is_ended() { Stayed::ToTheEnd } else { Stayed::UntilRecalled }
    }

    /// Prolongs the time while the mount is used. A mount that does nothing, or cannot reach shard
    /// 0, lets it lapse.
    fn stay_alone_for_a_time(&self, ending: &Ending, mut until: u64) -> Stayed {
        let namespace = self.fs.namespace();
        let mut asked_at = since_boot();
        loop {
            let left = until.saturating_sub(since_boot());
            ending.sleep(LOOK_EVERY.min(Duration::from_nanos(left)));
            let now = since_boot();
            if ending.is_ended() {
                return Stayed::ToTheEnd;
            }
            if now >= until {
                return lapsed(now - until);
            }
            if now - asked_at >= ASK_EVERY_NANOS && self.memory.take_used() {
                asked_at = now;
                match self.ask_alone(ending) {
                    // It was not alone meanwhile.
                    Asked::Yes(_) if since_boot() >= until => return Stayed::UntilRecalled,
                    Asked::Yes(later) => {
                        until = later;
                        self.memory.be_alone_until(until, self.newest_request());
                    }
                    Asked::No => return Stayed::UntilRecalled,
                    Asked::Unknown => {}
                }
                continue;
            }
            let patience = Duration::from_nanos(until - now);
            if let Some(Ok(true)) =
                ending.within_unless_ended(patience, pin!(namespace.is_recalled()))
            {
                return Stayed::UntilRecalled;
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
