//! What a client borrows and notes, and what is left of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pando_lent::journal::Noted;
use pando_lent::{Borrowing, Hears, SetAside};
use pando_types::Ino;
use pando_types::lend::Element;

use crate::base::lock::lock;
use crate::check::History;
use crate::machines::journals::Journals;
use crate::machines::objects::Objects;
use crate::network::mail::Mail;

/// What a client borrows.
#[derive(Default)]
pub struct Borrows {
    /// What answers from lent parts, if the client borrows.
    pub(super) lender: Mutex<Option<Arc<Borrowing<Mail>>>>,
    pub(super) journals: Journals,
    /// What dead clients of its machine have left.
    pub(super) left: Mutex<Vec<Left>>,
    /// Number of its changes that were set aside.
    pub(super) lost: Arc<AtomicU64>,
}

/// What a dead client has left.
#[derive(Clone, Debug)]
pub struct Left {
    pub(super) journals: Journals,
    /// What it had answered, and did not know to be durable.
    pub(super) not_durable: Vec<Element>,
}

/// Tells the judge what is lost.
pub(super) struct Ear {
    pub(super) history: Arc<Mutex<History>>,
    pub(super) lost: Arc<AtomicU64>,
    pub(super) objects: Option<Arc<Objects>>,
}

impl Ear {
    /// Contents of these files may be lost.
    pub(super) fn doubt(&self, files: impl Iterator<Item = Ino>) {
        if let Some(objects) = &self.objects {
            lock(&objects.contents).set_aside(files);
        }
    }
}

impl Hears for Ear {
    fn set_aside(&self, lost: Vec<SetAside>) {
        self.doubt(lost.iter().filter_map(|it| it.ino));
        self.lost.fetch_add(lost.len() as u64, Ordering::Relaxed);
        lock(&self.history).loans.sets_aside(&lost);
    }

    fn journal_fails(&self, _: String) {
        lock(&self.history).loans.journals_failed += 1;
    }
}

impl Left {
    /// Elements that were not known to be durable: those in its journals, and the others.
    pub(super) fn elements(&self) -> (Vec<Element>, Vec<Element>) {
        let all = self.journals.shards().into_iter().flat_map(|shard| self.journals.noted(shard));
        let noted: Vec<_> = all
            .filter_map(|noted| match noted {
                Noted::Element(element) => Some(element),
                _ => None,
            })
            .collect();
        self.not_durable.iter().cloned().partition(|element| noted.contains(element))
    }
}
