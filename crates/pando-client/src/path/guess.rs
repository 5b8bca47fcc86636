//! Guessing what lies ahead (InfiniFS §3.3.2): a directory that was never renamed has the id that follows from its name and
//! its parent's id. So the ids of a whole path are computed, and all its components asked for at once, those of one shard in
//! one message.
//!
//! ```text
//!   /A /X /Y /Z        X was born elsewhere
//!    │  │  │  └ id guessed from Y's guessed id: wrong
//!    │  │  └─── id guessed from X's guessed id: wrong
//!    │  └────── asked in A: leads to X, whose true id is not the guess
//!    └───────── right
//! ```
//!
//! Answers count from the first on, each as long as the directory that answered is the one, by number, that the answer
//! before it led to. Where they end, the next round begins with an id that is true; so there are no more rounds than wrong
//! guesses, and one.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;

use pando_types::op::Op;
use pando_types::reply::Body;
use pando_types::{Credentials, DirId, DirRef, Errno, Glimpse, Name, ShardIndex, Trail};

use crate::cache::{OnPath, Read};
use crate::client::Client;
use crate::route::Route;
use crate::transport::BoxFuture;

/// Most components asked for at once.
const ROUND_MAX: usize = 256;

/// A component that was guessed right.
#[derive(Clone, Copy)]
pub(super) struct Guessed {
    /// The directory it leads to.
    pub(super) dir: DirRef,
    /// What the shard knew that answered.
    pub(super) version: u64,
}

/// Components to be asked for at once.
pub(super) struct Round {
    from: DirRef,
    names: Vec<Name>,
    /// Of the directory that each is in; the first is known.
    ids: Vec<DirId>,
}

/// What became of the question for one component.
#[derive(Clone, Copy)]
enum Answer {
    Awaited,
    Told(Option<Glimpse>, u64),
    Stale,
}

impl Round {
    /// `names` one below the other, the first in `from`.
    pub(super) fn new(client: &Client, from: DirRef, mut names: Vec<Name>) -> Self {
        names.truncate(ROUND_MAX);
        let mut ids = vec![from.id];
        for name in names.iter().take(names.len().saturating_sub(1)) {
            let parent = ids.last().copied().unwrap_or(from.id);
            ids.push(client.secrets.dir_id(parent, name, 0));
        }
        Self { from, names, ids }
    }

    /// Asks; which components, from the first on, were guessed right, and where they lead. Nobody is waited for who cannot
    /// say more.
    pub(super) async fn ask(
        self,
        client: &Client,
        by: &Credentials,
        trail: &Trail,
    ) -> Result<Vec<(Name, Guessed)>, Errno> {
        client.ways.guessed();
        let mut of_shard: BTreeMap<ShardIndex, Vec<usize>> = BTreeMap::new();
        for nth in 0..self.names.len() {
            of_shard.entry(self.shard(client, nth)).or_default().push(nth);
        }
        let mut answers = vec![Answer::Awaited; self.names.len()];
        let mut asking: Vec<BoxFuture<'_, Vec<(usize, Answer)>>> = Vec::new();
        for (shard, which) in of_shard {
            asking.push(Box::pin(self.ask_shard(client, by, trail, shard, which)));
        }
        poll_fn(|context| {
            asking.retain_mut(|shard| match shard.as_mut().poll(context) {
                Poll::Ready(told) => {
                    told.into_iter().for_each(|(nth, answer)| answers[nth] = answer);
                    false
                }
                Poll::Pending => true,
            });
            self.right(&answers).map_or(Poll::Pending, Poll::Ready)
        })
        .await
        .inspect(|right| self.remember(client, right, &answers))
    }

    fn shard(&self, client: &Client, nth: usize) -> ShardIndex {
        match nth {
            0 => {
                let order = client.secrets.order(self.names[0].as_bytes());
                client.routes.shard(Route::Order(self.from, order))
            }
            // Where it has split, nobody knows before it is known which directory it is.
            nth => client.routes.home(self.ids[nth]),
        }
    }

    async fn ask_shard(
        &self,
        client: &Client,
        by: &Credentials,
        trail: &Trail,
        shard: ShardIndex,
        which: Vec<usize>,
    ) -> Vec<(usize, Answer)> {
        let on = OnPath::new(trail.clone());
        let places = which.iter().map(|nth| (self.ids[*nth], self.names[*nth].clone())).collect();
        let told = client.run_by(by, Op::Glimpse(shard, places), Some(&on)).await;
        let version = on.version();
        let answer = |glimpse| Answer::Told(glimpse, version);
        match told {
            Ok(Body::Glimpses(seen)) if seen.len() == which.len() => {
                which.into_iter().zip(seen.into_iter().map(answer)).collect()
            }
            Err(Errno::ESTALE) => which.into_iter().map(|nth| (nth, Answer::Stale)).collect(),
            // Whoever asks for it alone hears why.
            _ => which.into_iter().map(|nth| (nth, answer(None))).collect(),
        }
    }

    /// `None`: an answer is awaited that decides how far they reach.
    fn right(&self, answers: &[Answer]) -> Option<Result<Vec<(Name, Guessed)>, Errno>> {
        let mut right = Vec::new();
        let mut at = self.from;
        for ((answer, id), name) in answers.iter().zip(&self.ids).zip(&self.names) {
            if at.id != *id {
                break;
            }
            match answer {
                Answer::Awaited => return None,
                Answer::Stale => return Some(Err(Errno::ESTALE)),
                Answer::Told(Some(glimpse), version) if glimpse.dir == at.ino => {
                    at = glimpse.access.dir;
                    right.push((name.clone(), Guessed { dir: at, version: *version }));
                }
                Answer::Told(..) => break,
            }
        }
        Some(Ok(right))
    }

    fn remember(&self, client: &Client, right: &[(Name, Guessed)], answers: &[Answer]) {
        for ((name, _), answer) in right.iter().zip(answers) {
            if let Answer::Told(Some(Glimpse { dir, search, access }), version) = *answer {
                client.ways.learn(&Read { dir, search, name, access, version });
            }
        }
    }
}
