//! The target of a move: a process that carries out the target's steps in simulated time.

use std::cell::RefCell;
use std::rc::Rc;

use pando_core::Now;
use pando_server::moving::place::{Place, copy_name, store_name};
use pando_server::moving::target::{Ended, Heard, Pace, Step, Taker, Target};
use pando_server::moving::{Coming as Ready, Silent};
use pando_server::store::{Store, StoreError};
use pando_types::{Epoch, ShardIndex};
use pando_wire::{Ask, Hosting, Message, MoveToken, Stream, Told};

use super::Folder;
use crate::base::random::Random;
use crate::base::time::MILLISECOND;
use crate::network::end::End;
use crate::world::state::beliefs::Believer;
use crate::world::state::event::SimEvent;
use crate::world::state::moves::Coming;
use crate::world::state::world::World;

/// A target dies at one in this many points.
const DIES: u64 = 24;
/// Before one in this many steps, one of the folder's next changes is made its last, or made to
/// fail.
const STOPS: u64 = 40;
/// How long a target waits for an answer, nanoseconds.
const SILENT_MAX: u64 = 400 * MILLISECOND;

/// A process, as its targets see it.
struct Here {
    server: usize,
    folder: Folder,
    random: RefCell<Random>,
}

impl Taker for Here {
    fn place(&self) -> &dyn Place {
        &self.folder
    }

    fn open_copy(&self, shard: ShardIndex, epoch_at_least: u64) -> Result<Store, StoreError> {
        self.folder.open(&copy_name(shard.0), epoch_at_least).map(|(store, _)| store)
    }

    fn token(&self) -> Result<MoveToken, String> {
        let mut token = MoveToken([0; 16]);
        token.0.fill_with(|| self.random.borrow_mut().draw() as u8);
        Ok(token)
    }

    fn here(&self, shard: ShardIndex, epoch: Epoch) -> Hosting {
        at(self.server, shard, epoch)
    }

    fn say(&self, _: &str) {}
}

/// A process as the host of a shard.
fn at(server: usize, shard: ShardIndex, epoch: Epoch) -> Hosting {
    Hosting { shard, epoch, host: [0; 16], addresses: vec![server.to_string()] }
}

impl World {
    /// Asks some process to take some shard.
    pub(crate) fn want_move(&mut self) {
        let (shards, servers) = (self.hosts.len() as u64, self.servers.len() as u64);
        let Some(moves) = &mut self.moves else { return };
        let shard = moves.random.below(shards) as usize;
        let server = moves.random.below(servers) as usize;
        let delay = moves.random.between(1, 2 * self.config.shard_moves);
        self.after(delay, SimEvent::Move);
        self.adopt(server, shard);
    }

    /// Begins a move, as a real process does for `Ask::Adopt`.
    fn adopt(&mut self, server: usize, shard: usize) {
        let Some(folder) = self.servers[server].folder.clone() else { return };
        let is_coming =
            self.moves.as_ref().is_some_and(|it| it.coming.contains_key(&(server, shard)));
        let is_running = self.servers[server].driven().is_some();
        if !is_running || is_coming || self.has(server, shard) || folder.keeps(shard as u16) {
            return;
        }
        let from = self.believed(Believer::Process(server), shard);
        self.trace.note(
            self.time,
            &[],
            format_args!("shard {shard} is to move from {from} to {server}"),
        );
        let Some(taker) = self.taker(server) else { return };
        let Some(moves) = &mut self.moves else { return };
        moves.counts.asked += 1;
        let random = &mut moves.random;
        let pace = Pace {
            page_bytes: random.between(300, 6_000) as u32,
            rate: *random.pick(&[u64::MAX, 4_000_000, 300_000]),
            checkpoint_bytes: *random.pick(&[4 << 10, 64 << 20]),
            #[cfg(feature = "planted")]
            planted: self.config.planted_in_shell,
        };
        let from = at(from, self.index(shard), Epoch(0));
        self.begin(server, shard, Target::adopt(taker, from, pace));
    }

    /// Goes on with a copy that the last process had completed.
    pub(super) fn resume(&mut self, server: usize, shard: usize, ready: Ready) {
        let Some(taker) = self.taker(server) else { return };
        if let Some(moves) = &mut self.moves {
            moves.counts.resumed += 1;
        }
        self.begin(server, shard, Target::resume(taker, ready));
    }

    /// Removes a copy that the last process had not completed.
    pub(super) fn forget_copy(&mut self, server: usize, shard: usize) {
        if let (Some(folder), false) = (&self.servers[server].folder, self.has(server, shard)) {
            // If this fails, the next start or the next attempt removes it.
            let _ = folder.remove(&copy_name(shard as u16));
        }
    }

    fn taker(&mut self, server: usize) -> Option<Rc<Here>> {
        let folder = self.servers[server].folder.clone()?;
        let random = RefCell::new(self.moves.as_mut()?.random.fork());
        Some(Rc::new(Here { server, folder, random }))
    }

    fn begin(&mut self, server: usize, shard: usize, target: Target) {
        let number = self.next_number();
        if let Some(moves) = &mut self.moves {
            moves.coming.insert((server, shard), Coming { target, number, asked: None });
        }
        self.after(0, SimEvent::MoveGoesOn(server, shard, number));
    }

    /// Takes steps of the target until it waits for something.
    pub(super) fn drive(&mut self, server: usize, shard: usize, mut heard: Heard) {
        let life = self.servers[server].life;
        while self.is_alive(server, life) {
            self.spoil_folder(server, shard);
            self.servers[server].clocks.set(self.time);
            let now = self.servers[server].mono();
            let number = self.next_number();
            let Some(coming) =
                self.moves.as_mut().and_then(|it| it.coming.get_mut(&(server, shard)))
            else {
                return;
            };
            (coming.number, coming.asked) = (number, None);
            let step = coming.target.next(now, heard);
            if self.servers[server].post().has_stopped() {
                return self.settle(server);
            }
            heard = match step {
                Step::Ask(ask) => return self.ask_source(server, shard, number, ask),
                Step::Pause(time) => {
                    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                    return self.after(time, SimEvent::MoveGoesOn(server, shard, number));
                }
                Step::Pass(point) => {
                    if self.befalls(DIES) {
                        if let Some(moves) = &mut self.moves {
                            moves.counts.dies(format!("{point:?}"));
                        }
                        return self.crash(server);
                    }
                    let time = self.random.below(2 * MILLISECOND);
                    return self.after(time, SimEvent::MoveGoesOn(server, shard, number));
                }
                Step::Open => Heard::Opened(self.take_over(server, shard)),
                Step::Announce(epoch) => Heard::Announced(self.announce(server, shard, epoch)),
                Step::Ended(ended) => return self.move_ends(server, shard, &ended),
            };
        }
    }

    /// Sometimes makes a folder's disk stop at one of its next changes, or makes one of them fail.
    fn spoil_folder(&mut self, server: usize, shard: usize) {
        let Some(folder) = self.servers[server].folder.clone() else { return };
        if self.befalls(STOPS) {
            match self.config.commit_fails && self.befalls(2) {
                true => folder.fail_soon(&mut self.random),
                false => folder.stop_soon(shard, &mut self.random),
            }
        }
    }

    fn ask_source(&mut self, server: usize, shard: usize, number: u64, ask: Ask) {
        let Some(coming) = self.moves.as_mut().and_then(|it| it.coming.get_mut(&(server, shard)))
        else {
            return;
        };
        let source = coming.target.from().addresses.first().and_then(|at| at.parse().ok());
        let to = End::Process(source.unwrap_or(server));
        coming.asked = Some(to);
        self.after(SILENT_MAX, SimEvent::MoveSilent(server, shard, number));
        self.put(End::Target(server), to, number, &Message::Ask(ask));
    }

    /// An answer reaches a process's targets.
    pub(crate) fn target_is_told(&mut self, server: usize, stream: Stream, told: Told) {
        let Some(moves) = &self.moves else { return };
        let waits =
            moves.coming.iter().find(|((at, _), it)| *at == server && it.number == stream.0);
        let Some(shard) = waits.map(|((_, shard), _)| *shard) else { return };
        self.drive(server, shard, Heard::Told(Ok(told)));
    }

    /// A target has waited long enough, or its connection has broken. It asks again on another
    /// connection.
    pub(crate) fn move_is_silent(&mut self, server: usize, shard: usize, number: u64) {
        if !self.waits(server, shard, number) {
            return;
        }
        let Some(moves) = &mut self.moves else { return };
        moves.counts.silent += 1;
        self.drive(server, shard, Heard::Told(Err(Silent("no answer".to_owned()))));
    }

    fn take_over(&mut self, server: usize, shard: usize) -> Result<Epoch, String> {
        let (Some(driven), Some(folder)) =
            (self.servers[server].driven(), self.servers[server].folder.clone())
        else {
            return Err("it is dead".to_owned());
        };
        self.locate();
        let opened = folder.open(&store_name(shard as u16), 0).map_err(|error| error.what)?;
        let index = self.index(shard);
        let (mut core, host) = (None, &mut self.hosts[shard]);
        let recover = |now: Now, store: &Store| {
            let (shard, machine, effects) = host.recover(now, store)?;
            core = Some(shard);
            Ok((machine, effects))
        };
        let taken = driven.take_over(index, opened, self.servers[server].options(), recover);
        taken.map_err(|error| error.what)?;
        if self.hosts[shard].process.is_some() {
            self.break_rule(format!("shard {shard} is served, and comes to process {server}"));
        }
        if let (Some(core), Some(moves)) = (core, &mut self.moves) {
            moves.homes[shard] = server;
            self.hosts[shard].ends();
            self.hosts[shard].runs(core, driven.clone());
            self.servers[server].shards.push(shard);
            self.servers[server].shards.sort_unstable();
        }
        driven.host().epoch(index).ok_or_else(|| "it has stopped".to_owned())
    }

    fn announce(&mut self, server: usize, shard: usize, epoch: Epoch) -> Result<Hosting, String> {
        self.locate();
        let hosting = at(server, self.index(shard), epoch);
        self.learn_given(server, &hosting);
        self.open_links(server);
        Ok(hosting)
    }

    fn move_ends(&mut self, server: usize, shard: usize, ended: &Ended) {
        self.trace.note(
            self.time,
            &[],
            format_args!("shard {shard} to process {server}: {ended:?}"),
        );
        let Some(moves) = &mut self.moves else { return };
        moves.coming.remove(&(server, shard));
        match ended {
            Ended::Served => moves.counts.done += 1,
            Ended::Stays(_) => moves.counts.stayed += 1,
            Ended::Later(_) => {
                moves.counts.later += 1;
                moves.later.push(server);
            }
        }
        self.settle(server);
    }
}
