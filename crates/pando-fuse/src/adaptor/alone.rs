//! The state of being alone on the volume: the session asks for it, uses it, and gives it up before
//! another session begins (docs/design/alone.md).
//!
//! ```text
//!   several ──shard 0 says yes──► alone ──another session wants to begin──► nothing more is told with a timeout,
//!      ▲                                                                     the kernel forgets names and attributes
//!      └───────────────────── shard 0 hears of it ◄─────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::adaptor::state::inner::Inner;
use crate::adaptor::state::keeper::{Ending, Keeper};
use crate::device::notify::Notifier;
use crate::mounting::submounts::has_submounts;

/// How often a session that is not alone asks to be.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Pauses between further rounds in which the kernel forgets all attributes. A thread may take in a
/// node after the first round, from an answer that was sent before the recall.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

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
        let asked = pando_client::block_on(ending.unless_ended(namespace.ask_alone()));
        if !matches!(asked, Some(Ok(true))) {
            return;
        }
        self.memory.begin_alone();
        let recalled = pando_client::block_on(ending.unless_ended(namespace.recalled()));
        self.memory.end_alone();
        if recalled.is_none() {
            // The mount is gone, and the session ends.
            return;
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
