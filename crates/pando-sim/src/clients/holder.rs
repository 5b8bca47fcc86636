//! How a client borrows, and sends what clients have noted that died on its machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pando_client::{Transport as _, Volume};
use pando_lent::journal::Notebook;
use pando_lent::replay::{Gone, replay};
use pando_lent::{Borrowing, Hears as _, Objects, SetAside, Settings};
use pando_types::ShardIndex;
use pando_types::lend::Standing;

use crate::base::lock::lock;
use crate::base::time::SECOND;
use crate::clients::borrows::{Ear, Left};
use crate::clients::client::ClientRun;
use crate::machines::journals::Journals;
use crate::network::mail::Mail;

/// Pause between two looks for what dead clients have left.
const LOOK_EVERY: u64 = SECOND;

impl ClientRun {
    /// A new transport over the client's own that borrows, if the client is to borrow.
    pub(crate) fn borrows(&self) -> Option<Arc<Borrowing<Mail>>> {
        if !self.shared.lends {
            return None;
        }
        let Volume { secrets, map, .. } = self.shared.volume.clone();
        let notes = Arc::new(self.borrows.journals.clone());
        let (opens, notes) = (Some(7), Some(notes as Arc<dyn Notebook>));
        let settings =
            Settings { secrets, map, eager_after: 3, opens, notes, objects: self.objects() };
        let lender = Arc::new(Borrowing::new(self.shared.mail.clone(), settings));
        lender.watch(Box::new(self.ear()));
        *lock(&self.borrows.lender) = Some(lender.clone());
        Some(lender)
    }

    fn objects(&self) -> Option<Arc<dyn Objects>> {
        self.shared.objects.as_ref().map(|it| it.synced_by_transport(self.who))
    }

    /// What answers from lent parts, if the client borrows and is connected.
    pub(crate) fn lender(&self) -> Option<Arc<Borrowing<Mail>>> {
        lock(&self.borrows.lender).clone()
    }

    fn ear(&self) -> Ear {
        let history = Arc::clone(&self.shared.history);
        let objects = self.shared.objects.clone();
        Ear { history, lost: Arc::clone(&self.borrows.lost), objects }
    }

    /// Number of changes that the client has answered, and that were set aside.
    pub(crate) fn set_aside(&self) -> u64 {
        self.borrows.lost.load(Ordering::Relaxed)
    }

    /// Whether the client has answered what its shard is not known to have applied.
    pub(crate) fn has_unsent(&self) -> bool {
        self.lender().is_some_and(|lender| lender.counts().unsent > 0)
    }

    /// Some write of the client's journals is to fail, and all that come after it.
    pub(crate) fn let_journals_fail(&self, write: u64) {
        self.borrows.journals.fail_at(write);
    }

    /// The client is closed: it removes its journals. What it has done is as durable as all else.
    pub(crate) fn end_notes(&self) {
        let Some(lender) = self.lender() else { return };
        lock(&self.shared.history).loans.dies(&lender.not_durable());
        if let Err(error) = lender.end_notes() {
            lock(&self.shared.history).loans.breaks(error.to_string());
        }
    }

    /// What is left of the client as it dies, and of those whose journals it was to send.
    pub(crate) fn leaves(&self) -> Vec<Left> {
        let lender = self.lender();
        let not_durable = lender.map(|lender| lender.not_durable()).unwrap_or_default();
        let mut left = std::mem::take(&mut *lock(&self.borrows.left));
        let own = Left { journals: self.borrows.journals.clone(), not_durable };
        if own.journals.fails() {
            // Shards have applied what could not be noted.
            lock(&self.shared.history).loans.dies(&own.elements().1);
        }
        left.push(own);
        left.retain(|left| !left.journals.shards().is_empty());
        left
    }

    /// The machine of dead clients loses its power, and with it what they have left.
    pub(crate) fn loses(&self, left: &[Left]) {
        for left in left {
            let gone = left.elements().0;
            let shard = ShardIndex(0);
            let lost = gone.iter().filter_map(|it| SetAside::of(shard, it, Standing::Fenced));
            self.ear().doubt(lost.filter_map(|it| it.ino));
            lock(&self.shared.history).loans.dies(&gone);
        }
    }

    /// Takes over what dead clients have left. Returns the journals, each with its shard.
    pub(crate) fn inherits(&self, left: Vec<Left>) -> Vec<(Journals, ShardIndex)> {
        let of = |left: &Left| {
            let journals = left.journals.clone();
            left.journals.shards().into_iter().map(move |shard| (journals.clone(), shard))
        };
        let journals = left.iter().flat_map(of).collect();
        *lock(&self.borrows.left) = left;
        journals
    }

    /// Sends what a dead client has noted about a shard, after a while.
    pub(crate) async fn send_journal(
        self: Arc<Self>,
        (journals, shard): (Journals, ShardIndex),
        delay: u64,
    ) {
        let mail = &self.shared.mail;
        mail.sleep(delay).await;
        loop {
            let noted = journals.noted(shard);
            let gone = match self.objects() {
                Some(objects) => Gone::of(&noted, &*objects, journals.has_lost_objects()).await,
                None => Ok(Gone::These(BTreeSet::new())),
            };
            let Ok(gone) = gone else {
                let _ = journals.objects_are_lost();
                continue;
            };
            if let Ok(lost) = replay(mail, shard, noted, &gone).await {
                self.ear().set_aside(lost);
                journals.remove(shard);
                lock(&self.shared.history).loans.journals_sent += 1;
                return;
            }
            mail.sleep(LOOK_EVERY).await;
        }
    }
}
