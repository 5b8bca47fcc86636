//! The source of a move: the process that a shard leaves.

use std::cell::{Cell, RefCell};
use std::io;

use pando_server::Host;
use pando_server::host::driven::Driven;
use pando_server::moving::Point;
use pando_server::moving::place::{Place, store_name};
use pando_server::moving::source::{Giver, answer, clear, sweep};
use pando_server::store::{Gap, Page};
use pando_types::ShardIndex;
use pando_wire::{Ask, Hosting, Message, MoveTold, Stream, Told};

use crate::base::time::MILLISECOND;
use crate::machines::folder::Folder;
use crate::machines::post::Post;
use crate::network::end::{End, Way};
use crate::world::state::beliefs::Believer;
use crate::world::state::event::SimEvent;
use crate::world::state::world::World;

/// A source dies at one in this many points.
const DIES: u64 = 40;
/// One in this many commits fails, where commits may fail.
const FAILS: u64 = 6;
/// Maximum time between two checks whether an old copy can be removed, nanoseconds.
const LOOK_EVERY: u64 = 200 * MILLISECOND;

/// A process that answers a question, as the server's code sees it.
struct Here<'a> {
    driven: &'a Driven,
    folder: &'a Folder,
    post: &'a Post,
    /// Number of the point, from now on, at which it dies.
    dies_in: Option<u64>,
    died: Cell<Option<Point>>,
    given: RefCell<Option<Hosting>>,
    learned: RefCell<Option<Hosting>>,
}

impl Giver for Here<'_> {
    fn host(&self) -> &Host {
        self.driven.host()
    }

    fn place(&self) -> &dyn Place {
        self.folder
    }

    fn pass(&self, point: Point) -> io::Result<()> {
        if self.post.has_stopped() {
            return Err(io::Error::other("it is dead"));
        }
        let is_to_die = match (point, self.dies_in) {
            // One question passes one or two points.
            (Point::Given, Some(1))
            | (Point::Committed | Point::Frozen | Point::Following, Some(0)) => true,
            _ => false,
        };
        if is_to_die {
            self.post.stop();
            self.died.set(Some(point));
            return Err(io::Error::other("it dies"));
        }
        Ok(())
    }

    fn is_given(&self, to: &Hosting) {
        *self.given.borrow_mut() = Some(to.clone());
    }

    fn learn(&self, hosting: &Hosting) {
        *self.learned.borrow_mut() = Some(hosting.clone());
    }
}

impl World {
    /// A question reaches a process.
    pub(crate) fn process_is_asked(&mut self, server: usize, way: Way, stream: Stream, ask: Ask) {
        let (Some(driven), Some(folder)) =
            (self.servers[server].driven(), self.servers[server].folder.clone())
        else {
            if self.is_connected(way) {
                self.break_off(way.from, way.to);
            }
            return;
        };
        self.servers[server].clocks.set(self.time);
        let life = self.servers[server].life;
        let told = match ask {
            Ask::Scan { shard, from, bytes } => scan(&driven, shard, &from, bytes),
            Ask::Move(shard, token, ask) => {
                let dies_in = self.befalls(DIES / 2).then(|| u64::from(self.befalls(2)));
                if self.config.commit_fails && self.befalls(FAILS) {
                    folder.fail_soon(&mut self.random);
                }
                let post = self.servers[server].post();
                let (died, given, learned) = Default::default();
                let here = Here {
                    driven: &driven,
                    folder: &folder,
                    post: &post,
                    dies_in,
                    died,
                    given,
                    learned,
                };
                let (told, _) = answer(&here, shard, token, &ask);
                let (died, given, learned) =
                    (here.died.get(), here.given.into_inner(), here.learned.into_inner());
                self.is_answered(server, shard, &told, died);
                if let Some(to) = given {
                    self.leaves(server, &to);
                }
                if let Some(to) = learned {
                    self.learn_given(server, &to);
                }
                Told::Move(told)
            }
            other => panic!("{other:?} came to process {server}"),
        };
        drop(driven);
        self.settle(server);
        if self.is_alive(server, life) && self.is_connected(way) {
            self.put(way.to, way.from, stream.0, &Message::Told(told));
        }
    }

    fn is_answered(
        &mut self,
        server: usize,
        shard: ShardIndex,
        told: &MoveTold,
        died: Option<Point>,
    ) {
        let Some(moves) = &mut self.moves else { return };
        moves.counts.answered += 1;
        if let Some(point) = died {
            moves.counts.dies(format!("{point:?}"));
        }
        let shard = usize::from(shard.0);
        let driven = self.servers[server].driven();
        let has_stopped =
            driven.is_some_and(|it| it.failure_of(self.hosts[shard].config.shard).is_some());
        if matches!(told, MoveTold::Unsure(_)) && has_stopped {
            moves.counts.unsure += 1;
            self.hosts[shard].may_stop = true;
        }
    }

    /// A shard was given away. Connections to it are broken.
    fn leaves(&mut self, server: usize, to: &Hosting) {
        let shard = usize::from(to.shard.0);
        self.trace.note(
            self.time,
            &[],
            format_args!("process {server} has given shard {shard} away"),
        );
        if let Some(process) = self.hosts[shard].process.take() {
            self.stats.absorb_core(&process);
        }
        self.hosts[shard].ends();
        self.servers[server].shards.retain(|it| *it != shard);
        for other in self.network.neighbours(End::Shard(shard)) {
            self.break_off(End::Shard(shard), other);
        }
        if let Some(moves) = &mut self.moves {
            moves.counts.given += 1;
        }
        self.learn_given(server, to);
        self.locate();
        self.open_links(server);
        self.look_whether_clear(server, shard);
    }

    /// A process learns where a shard is, or will be.
    pub(super) fn learn_given(&mut self, server: usize, to: &Hosting) {
        let at = to.addresses.first().and_then(|at| at.parse().ok());
        if let (Some(moves), Some(at)) = (&mut self.moves, at) {
            let heard = [(usize::from(to.shard.0), (to.epoch.0, at))];
            moves.beliefs.learn(Believer::Process(server), heard);
        }
    }

    pub(super) fn look_whether_clear(&mut self, server: usize, shard: usize) {
        let life = self.servers[server].life;
        let delay = self.random.between(MILLISECOND, LOOK_EVERY);
        self.after(delay, SimEvent::LookWhetherClear(server, life, shard));
    }

    /// Checks whether a shard that was given away is served elsewhere, and then removes the old
    /// copy.
    pub(crate) fn clear(&mut self, server: usize, shard: usize) {
        let (Some(driven), Some(folder), Some(moves)) =
            (self.servers[server].driven(), self.servers[server].folder.clone(), &mut self.moves)
        else {
            return;
        };
        if moves.coming.contains_key(&(server, shard)) {
            return self.look_whether_clear(server, shard);
        }
        let known = moves.beliefs.of(Believer::Process(server), shard);
        let known = known.map(|(epoch, _)| pando_types::Epoch(epoch));
        let post = self.servers[server].post();
        let (died, given, learned) = Default::default();
        let here = Here {
            driven: &driven,
            folder: &folder,
            post: &post,
            dies_in: None,
            died,
            given,
            learned,
        };
        let was_there = folder.has(&store_name(shard as u16));
        sweep(&folder, ShardIndex(shard as u16));
        let is_clear = clear(&here, ShardIndex(shard as u16), known);
        sweep(&folder, ShardIndex(shard as u16));
        moves.counts.cleared += u64::from(was_there && !folder.has(&store_name(shard as u16)));
        drop(driven);
        self.settle(server);
        if !is_clear {
            self.look_whether_clear(server, shard);
        }
    }
}

/// Answers as a real server does.
fn scan(driven: &Driven, shard: ShardIndex, from: &[u8], bytes: u32) -> Told {
    match driven.host().page(shard, from, bytes as usize) {
        None => Told::Failed(format!("shard {shard} is not served here")),
        Some(Ok(Page { gap: Some(Gap { keys, why }), .. })) => Told::Gap { keys, why },
        Some(Ok(Page { rows, is_last, .. })) => Told::Rows { rows, is_last },
        Some(Err(why)) => Told::Failed(format!("shard {shard}: {why}")),
    }
}
