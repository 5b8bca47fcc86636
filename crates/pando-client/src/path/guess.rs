//! Guesses the directories ahead on a path (InfiniFS §3.3.2). The id of a directory that was never
//! renamed follows from its name and its parent's id. So the client computes the ids of a whole
//! path, and asks for all components at once, in one message to each shard.
//!
//! ```text
//!   /A /X /Y /Z        X was born elsewhere
//!    │  │  │  └ id guessed from Y's guessed id: wrong
//!    │  │  └─── id guessed from X's guessed id: wrong
//!    │  └────── asked in A: leads to X, whose true id is not the guess
//!    └───────── right
//! ```
//!
//! Answers count from the first on. Each counts if it comes from the directory, by ino, to which
//! the answer before it led. The next round begins at the last true id. So there is at most one
//! round more than wrong guesses.
//!
//! If a directory never split, or its partitions are known, its id tells the shard of a name.
//! Otherwise the shard that is asked tells what partitions it has. That changes no id, so all other
//! answers stand. Names that are elsewhere are asked for once more, all at once, of all shards that
//! can have them ([`Routes::candidates`]). So a round takes two trips at most. A name that is
//! elsewhere even then is found when it is asked for alone.
//!
//! Each answer is true at its shard's version. A walk that takes answers goes back to the lowest of
//! these versions, and the next shard that is asked judges all versions above. So it does not
//! matter in which trip an answer came.
//!
//! [`Routes::candidates`]: crate::route::routes::Routes::candidates

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use pando_types::op::Op;
use pando_types::reply::{Access, Body};
use pando_types::{
    Credentials, DirId, DirRef, Errno, Glimpse, Ino, Name, Order, Search, ShardIndex, Trail,
};

use crate::cache::on_path::OnPath;
use crate::cache::remembered::Read;
use crate::client::Client;
use crate::route::plan::Route;
use crate::transport::traits::BoxFuture;

/// Most components asked for at once.
const ROUND_MAX: usize = 256;
/// How long the second trip waits for shards that are late with the first, nanoseconds.
const TOGETHER: u64 = 10_000_000;

/// A component that was guessed right.
#[derive(Clone, Copy)]
pub(super) struct Guessed {
    /// The directory that it leads to.
    pub(super) dir: DirRef,
    /// The version that the shard knew that answered.
    pub(super) version: u64,
}

/// Components to ask for at once, one below the other.
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
    /// The shard that was asked first.
    asked: ShardIndex,
    /// Number of shards that are yet to answer.
    awaited: usize,
    is_asked_twice: bool,
    answer: Option<Answer>,
}

/// The outcome for one component.
#[derive(Clone, Copy)]
enum Answer {
    Dir(Told),
    Nothing,
    Stale,
    /// The shard that was asked does not have the name. Holds the directory's ino, if the shard
    /// knew it.
    Elsewhere(Option<Ino>),
}

#[derive(Clone, Copy)]
struct Told {
    dir: Ino,
    search: Search,
    access: Access,
    version: u64,
}

/// One shard's answer about the components that it was asked for.
struct Heard {
    shard: ShardIndex,
    which: Vec<usize>,
    version: u64,
    /// As many as were asked for.
    seen: Result<Vec<Glimpse>, Errno>,
}

/// How far the answers reach.
enum Reach {
    /// To the end: further answers change nothing.
    End(Result<Vec<(Name, Guessed)>, Errno>),
    /// To a component that waits for its answer.
    Awaited,
    /// To a component that other shards must be asked for.
    Elsewhere,
}

type Asking<'a> = Vec<BoxFuture<'a, Heard>>;

impl Round {
    /// A round for `names`, one below the other, the first in `from`.
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

    /// Asks for all components. Returns those that were guessed right, from the first on, and the
    /// directories that they lead to. It does not wait for an answer that cannot change the result.
    pub(super) async fn ask(
        mut self,
        client: &Client,
        credentials: &Credentials,
        trail: &Trail,
    ) -> Result<Vec<(Name, Guessed)>, Errno> {
        client.paths.guessed();
        let first = self.components.iter().enumerate().map(|(nth, it)| (it.asked, nth));
        let mut asking = self.frames(client, credentials, trail, first);
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
                    client.paths.repeated();
                    asking.extend(self.frames(client, credentials, trail, again));
                }
            }
        })
        .await
        .inspect(|right| self.remember(client, right.len()))
    }

    /// Makes one request for each shard, with all components that it is asked for.
    fn frames<'a>(
        &self,
        client: &'a Client,
        credentials: &'a Credentials,
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
                let seen = match client.run_by(credentials, &op, Some(&on)).await {
                    Ok(Body::Glimpses(seen)) if seen.len() == which.len() => Ok(seen),
                    Ok(_) => Err(Errno::EIO),
                    Err(errno) => Err(errno),
                };
                Heard { shard, which, version: on.version(), seen }
            })
        };
        of_shard.into_iter().map(frame).collect()
    }

    /// Takes in the answers that have come.
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

    /// The other shards to ask for components that are elsewhere and were asked for only once.
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
                client.paths.learn(&Read { dir, search, name, access, version });
            }
        }
    }
}

impl Component {
    const fn is_elsewhere(&self) -> bool {
        matches!(self.answer, Some(Answer::Elsewhere(_)))
    }

    /// What a shard's answer means for this component. Learns what it tells of partitions.
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
                client.routes.learn_hash_slot(news);
                Answer::Elsewhere(None)
            }
        }
    }

    /// Notes that a shard has not answered. The error comes again if the walk asks for this
    /// component alone. Another shard may still have the name.
    fn failed(&mut self, errno: Errno) {
        self.take(match errno {
            Errno::ESTALE => Answer::Stale,
            _ if self.is_asked_twice => Answer::Elsewhere(None),
            _ => Answer::Nothing,
        });
    }

    /// Takes in an answer. The first shard that has the name decides. If no asked shard has it,
    /// others are asked, but only once.
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
