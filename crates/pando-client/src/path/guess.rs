//! Guessing what lies ahead (InfiniFS §3.3.2): a directory that was never renamed has the id that
//! follows from its name and its parent's id. So the ids of a whole path are computed, and all its
//! components asked for at once, those of one shard in one message.
//!
//! ```text
//!   /A /X /Y /Z        X was born elsewhere
//!    │  │  │  └ id guessed from Y's guessed id: wrong
//!    │  │  └─── id guessed from X's guessed id: wrong
//!    │  └────── asked in A: leads to X, whose true id is not the guess
//!    └───────── right
//! ```
//!
//! Answers count from the first on, each as long as the directory that answered is the one, by
//! number, that the answer before it led to. Where they end, the next round begins with an id that
//! is true; so there are no more rounds than wrong guesses, and one.
//!
//! An id says at once who has a name in its directory, if the directory never split, or it is known
//! how. Otherwise whoever is asked tells what partitions it has. That changes no id, so all other
//! answers stand, and what is elsewhere is asked for once more, all of it at once, from all shards
//! that can have it ([`Routes::candidates`]): a round takes two trips at most. What is elsewhere
//! even then is found by whoever asks for it alone.
//!
//! Each answer is true at its shard's version, and a walk that takes any of them goes back to the
//! lowest; whoever is asked next judges all versions above that. So it does not matter in which
//! trip an answer came.
//!
//! [`Routes::candidates`]: crate::route::Routes::candidates

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use pando_types::op::Op;
use pando_types::reply::{Access, Body};
use pando_types::{
    Credentials, DirId, DirRef, Errno, Glimpse, Ino, Name, Order, Search, ShardIndex, Trail,
};

use crate::cache::{OnPath, Read};
use crate::client::Client;
use crate::route::Route;
use crate::transport::BoxFuture;

/// Most components asked for at once.
const ROUND_MAX: usize = 256;
/// Who has not answered after so many nanoseconds is not waited for before others are asked once
/// more.
const TOGETHER: u64 = 10_000_000;

/// A component that was guessed right.
#[derive(Clone, Copy)]
pub(super) struct Guessed {
    /// The directory it leads to.
    pub(super) dir: DirRef,
    /// What the shard knew that answered.
    pub(super) version: u64,
}

/// Components to be asked for at once, one below the other.
pub(super) struct Round {
    from: DirRef,
    components: Vec<Component>,
    is_repeated: bool,
}

/// A name in the directory that has this id.
struct Component {
    id: DirId,
    name: Name,
    order: Order,
    /// Who was asked first.
    asked: ShardIndex,
    /// How many are yet to answer.
    awaited: usize,
    is_asked_twice: bool,
    answer: Option<Answer>,
}

/// What became of the question for one component.
#[derive(Clone, Copy)]
enum Answer {
    Dir(Told),
    Nothing,
    Stale,
    /// Not with who was asked first; the directory, if that knew it.
    Elsewhere(Option<Ino>),
}

#[derive(Clone, Copy)]
struct Told {
    dir: Ino,
    search: Search,
    access: Access,
    version: u64,
}

/// What one shard says of the components that it was asked for.
struct Heard {
    shard: ShardIndex,
    which: Vec<usize>,
    version: u64,
    /// As many as were asked for.
    seen: Result<Vec<Glimpse>, Errno>,
}

/// How far answers reach.
enum Reach {
    /// As far as they ever will.
    End(Result<Vec<(Name, Guessed)>, Errno>),
    /// To one that is yet to come.
    Awaited,
    /// To one that is to be asked for elsewhere.
    Elsewhere,
}

type Asking<'a> = Vec<BoxFuture<'a, Heard>>;

impl Round {
    /// `names` one below the other, the first in `from`.
    pub(super) fn new(client: &Client, from: DirRef, mut names: Vec<Name>) -> Self {
        names.truncate(ROUND_MAX);
        let mut next = from.id;
        let component = |(nth, name): (usize, Name)| {
            let below = client.secrets.dir_id(next, &name, 0);
            let id = std::mem::replace(&mut next, below);
            let order = client.secrets.order(name.as_bytes());
            let asked = match nth {
                0 => client.routes.shard(Route::Order(from, order)),
                _ => client.routes.guess(id, order),
            };
            let (awaited, is_asked_twice, answer) = (1, false, None);
            Component { id, name, order, asked, awaited, is_asked_twice, answer }
        };
        let components = names.into_iter().enumerate().map(component).collect();
        Self { from, components, is_repeated: false }
    }

    /// Asks; which components, from the first on, were guessed right, and where they lead. Nobody
    /// is waited for who cannot say more.
    pub(super) async fn ask(
        mut self,
        client: &Client,
        by: &Credentials,
        trail: &Trail,
    ) -> Result<Vec<(Name, Guessed)>, Errno> {
        client.ways.guessed();
        let first = self.components.iter().enumerate().map(|(nth, it)| (it.asked, nth));
        let mut asking = self.frames(client, by, trail, first);
        let mut patience: Option<BoxFuture<'_, ()>> = None;
        poll_fn(|context| {
            loop {
                self.hear(client, context, &mut asking);
                match self.reach() {
                    Reach::End(right) => return Poll::Ready(right),
                    Reach::Awaited if !self.is_repeated => return Poll::Pending,
                    Reach::Elsewhere if !self.is_repeated && !asking.is_empty() => {
                        let wait = patience.get_or_insert_with(|| client.transport.sleep(TOGETHER));
                        ready!(wait.as_mut().poll(context));
                    }
                    _ => {}
                }
                if !self.components.iter().any(Component::is_elsewhere) {
                    return Poll::Pending;
                }
                let again = self.again(client);
                if !again.is_empty() {
                    client.ways.repeated();
                    asking.extend(self.frames(client, by, trail, again));
                }
            }
        })
        .await
        .inspect(|right| self.remember(client, right.len()))
    }

    /// One question for each shard, with all that is asked of it.
    fn frames<'a>(
        &self,
        client: &'a Client,
        by: &'a Credentials,
        trail: &'a Trail,
        asked: impl IntoIterator<Item = (ShardIndex, usize)>,
    ) -> Asking<'a> {
        let mut of_shard: BTreeMap<ShardIndex, Vec<usize>> = BTreeMap::new();
        for (shard, nth) in asked {
            of_shard.entry(shard).or_default().push(nth);
        }
        let frame = |(shard, which): (ShardIndex, Vec<usize>)| -> BoxFuture<'a, Heard> {
            let place =
                |nth: &usize| (self.components[*nth].id, self.components[*nth].name.clone());
            let op = Op::Glimpse(shard, which.iter().map(place).collect());
            Box::pin(async move {
                let on = OnPath::new(trail.clone());
                let seen = match client.run_by(by, &op, Some(&on)).await {
                    Ok(Body::Glimpses(seen)) if seen.len() == which.len() => Ok(seen),
                    Ok(_) => Err(Errno::EIO),
                    Err(errno) => Err(errno),
                };
                Heard { shard, which, version: on.version(), seen }
            })
        };
        of_shard.into_iter().map(frame).collect()
    }

    /// Takes in what has been answered.
    fn hear(&mut self, client: &Client, context: &mut Context<'_>, asking: &mut Asking<'_>) {
        asking.retain_mut(|frame| match frame.as_mut().poll(context) {
            Poll::Ready(Heard { shard, which, version, seen }) => {
                match seen {
                    Ok(seen) => {
                        for (nth, glimpse) in which.into_iter().zip(seen) {
                            let answer = self.components[nth].read(client, shard, version, glimpse);
                            self.components[nth].take(answer);
                        }
                    }
                    Err(errno) => {
                        which.into_iter().for_each(|nth| self.components[nth].failed(errno));
                    }
                }
                false
            }
            Poll::Pending => true,
        });
    }

    /// Who is to be asked for what is elsewhere, and was not asked for twice.
    fn again(&mut self, client: &Client) -> Vec<(ShardIndex, usize)> {
        self.is_repeated = true;
        let mut again = Vec::new();
        let elsewhere = |(_, component): &(usize, &mut Component)| component.is_elsewhere();
        for (nth, component) in self.components.iter_mut().enumerate().filter(elsewhere) {
            let candidates = client.routes.candidates(component.id, component.order);
            let others = candidates.into_iter().filter(|shard| *shard != component.asked);
            let before = again.len();
            again.extend(others.map(|shard| (shard, nth)));
            component.awaited = again.len() - before;
            component.is_asked_twice = true;
            component.answer = (component.awaited == 0).then_some(Answer::Nothing);
        }
        again
    }

    fn reach(&self) -> Reach {
        let mut right = Vec::new();
        let mut at = self.from;
        for component in &self.components {
            if at.id != component.id {
                break;
            }
            match component.answer {
                None => return Reach::Awaited,
                Some(Answer::Stale) => return Reach::End(Err(Errno::ESTALE)),
                Some(Answer::Elsewhere(dir)) if dir.is_none_or(|dir| dir == at.ino) => {
                    return Reach::Elsewhere;
                }
                Some(Answer::Dir(Told { dir, access, version, .. })) if dir == at.ino => {
                    at = access.dir;
                    right.push((component.name.clone(), Guessed { dir: at, version }));
                }
                Some(_) => break,
            }
        }
        Reach::End(Ok(right))
    }

    fn remember(&self, client: &Client, right: usize) {
        for component in &self.components[..right] {
            if let Some(Answer::Dir(Told { dir, search, access, version })) = component.answer {
                let name = &component.name;
                client.ways.learn(&Read { dir, search, name, access, version });
            }
        }
    }
}

impl Component {
    const fn is_elsewhere(&self) -> bool {
        matches!(self.answer, Some(Answer::Elsewhere(_)))
    }

    /// What a shard's answer means; what it tells of places is learned.
    fn read(&self, client: &Client, from: ShardIndex, version: u64, glimpse: Glimpse) -> Answer {
        match glimpse {
            Glimpse::Dir { dir, search, access } => {
                Answer::Dir(Told { dir, search, access, version })
            }
            Glimpse::Nothing => Answer::Nothing,
            Glimpse::Elsewhere(ino, history) => {
                client.routes.learn(DirRef { id: self.id, ino }, &history);
                Answer::Elsewhere(Some(ino))
            }
            Glimpse::AskHome => {
                client.routes.lacks(self.id, from);
                Answer::Elsewhere(None)
            }
            Glimpse::Moved(news) => {
                client.routes.learn_slot(news);
                Answer::Elsewhere(None)
            }
        }
    }

    /// A shard has not answered. Why, hears whoever asks for it alone; another one may still have
    /// it.
    fn failed(&mut self, errno: Errno) {
        self.take(match errno {
            Errno::ESTALE => Answer::Stale,
            _ if self.is_asked_twice => Answer::Elsewhere(None),
            _ => Answer::Nothing,
        });
    }

    /// The first that has the name decides. If nobody has it who was asked, it is asked for
    /// elsewhere, but once.
    fn take(&mut self, answer: Answer) {
        self.awaited = self.awaited.saturating_sub(1);
        if self.answer.is_some() {
            return;
        }
        self.answer = match answer {
            Answer::Elsewhere(_) if self.awaited > 0 => None,
            Answer::Elsewhere(_) if self.is_asked_twice => Some(Answer::Nothing),
            answer => Some(answer),
        };
    }
}
