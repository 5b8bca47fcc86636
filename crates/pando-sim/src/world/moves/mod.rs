//! Shards that move between processes while operations run and faults happen. Both sides are the
//! server's own code, over the simulated network, with folders in memory.
//!
//! ```text
//!   the world asks ─► Target (`pando_server::moving::target`) ─► network ─► `source::answer` ─► Driven::host
//!                      │ dies at each point, and at changes of its folder     │ so does the source
//!                      ▼ a start reads the folder, and goes on                ▼ a start serves what its folder keeps
//!                    Driven::take_over
//! ```
//!
//! Judged: at any time, at most one process has a shard, and at most one folder keeps it. Once all
//! heals, each move ends. Beside that, answers, structure and fsynced changes are judged as in each
//! run.

mod belief;
mod source;
mod target;

use pando_server::moving::Given;
use pando_server::moving::place::store_name;
use pando_server::moving::target::Heard;

use crate::base::random::Random;
use crate::counts::moves::MoveCounts;
use crate::machines::folder::Folder;
use crate::network::end::End;
use crate::world::faults::Death;
use crate::world::state::event::SimEvent;
use crate::world::state::moves::Moves;
use crate::world::state::world::World;

impl World {
    /// Gives each process a folder, if shards move in this run.
    pub(crate) fn begin_moves(&mut self) {
        if self.config.shard_moves == 0 {
            return;
        }
        let mut random = Random::new(self.config.seed ^ 0x5AAD_0000);
        for server in &mut self.servers {
            let folder = Folder::new(random.fork());
            for &shard in &server.shards {
                folder.put(&store_name(shard as u16), self.hosts[shard].disk.clone());
            }
            server.folder = Some(folder);
        }
        let (beliefs, coming, later) = Default::default();
        let homes = (0..self.hosts.len()).map(|shard| shard % self.servers.len()).collect();
        let (counts, broken) = Default::default();
        self.moves = Some(Moves { random, beliefs, homes, coming, later, counts, broken });
        self.after(self.config.shard_moves, SimEvent::Move);
    }

    /// The process in which a shard runs, or ran last; `None`: shards do not move in this run.
    pub(crate) fn home(&self, shard: usize) -> Option<usize> {
        Some(self.moves.as_ref()?.homes[shard])
    }

    pub(crate) fn move_counts(&self) -> MoveCounts {
        self.moves.as_ref().map(|moves| moves.counts.clone()).unwrap_or_default()
    }

    /// Whether a shard may stop in this run.
    pub(crate) fn may_stop(&self) -> bool {
        self.config.disk_interval > 0 || self.config.commit_fails
    }

    /// The first fault found in moves.
    pub(crate) fn broken_moves(&self) -> Option<String> {
        self.moves.as_ref()?.broken.clone()
    }

    fn break_rule(&mut self, what: String) {
        self.trace.note(self.time, &[], format_args!("{what}"));
        if let Some(moves) = &mut self.moves {
            moves.broken.get_or_insert(what);
        }
    }

    /// True once in `of` times at random, while faults happen.
    fn befalls(&mut self, of: u64) -> bool {
        let is_faulty = self.is_faulty;
        self.moves.as_mut().is_some_and(|moves| is_faulty && moves.random.chance(1, of))
    }

    /// Checks that at most one process has each shard.
    pub(crate) fn judge_moves(&mut self) {
        if self.moves.is_none() {
            return;
        }
        for shard in 0..self.hosts.len() {
            let serve = |server: &usize| self.has(*server, shard);
            let servers: Vec<usize> = (0..self.servers.len()).filter(serve).collect();
            if servers.len() > 1 {
                self.break_rule(format!("shard {shard} is served by processes {servers:?}"));
            }
        }
    }

    /// Checks, after all has healed, that no move is left.
    pub(crate) fn moves_at_rest(&self) -> Result<(), String> {
        let Some(moves) = &self.moves else { return Ok(()) };
        let waits = |(server, shard): &(usize, usize)| {
            let folder = self.servers[*server].folder.as_ref();
            // The note of a shard that has come may be left, if it could not be removed.
            let has_note = folder.is_some_and(|folder| folder.coming(*shard as u16).is_some());
            has_note && !self.has(*server, *shard)
        };
        let shards = 0..self.hosts.len();
        let all = shards.flat_map(|shard| (0..self.servers.len()).map(move |at| (at, shard)));
        match moves.coming.keys().copied().chain(all.filter(waits)).next() {
            Some((server, shard)) => {
                Err(format!("shard {shard} did not come to process {server}, nor stay for good"))
            }
            None => Ok(()),
        }
    }

    /// Finds the folder that keeps each shard, after a process has died or a file was renamed. It
    /// is a folder that a start would serve the shard from, or the one that the shard was given to.
    fn locate(&mut self) {
        for shard in 0..self.hosts.len() {
            let number = shard as u16;
            let folders = self.servers.iter().map(|server| server.folder.as_ref());
            let folders: Vec<(usize, &Folder)> =
                folders.enumerate().filter_map(|(at, folder)| Some((at, folder?))).collect();
            let keepers: Vec<usize> =
                folders.iter().filter(|(_, it)| it.keeps(number)).map(|(at, _)| *at).collect();
            let disk = match keepers[..] {
                [at] => folders[at].1.disk(&store_name(number)),
                [] => folders.iter().find_map(|(_, folder)| {
                    let coming = folder.coming(number)?;
                    let is_given = |other: &Folder| {
                        let given = Given::read(other, number).ok().flatten();
                        given.is_some_and(|given| given.token == coming.token)
                    };
                    let is_given = folders.iter().any(|(_, other)| is_given(other));
                    is_given.then(|| folder.given_here(number))?
                }),
                _ => {
                    self.break_rule(format!("shard {shard} is kept by processes {keepers:?}"));
                    continue;
                }
            };
            match disk {
                Some(disk) => self.hosts[shard].disk = disk,
                // A process with a stopped disk is about to die.
                None if folders.iter().any(|(_, folder)| folder.has_stopped()) => {}
                None => self.break_rule(format!("shard {shard} is nobody's")),
            }
        }
    }

    /// Reads a process's folder as the process starts. `Err`: the process died during that.
    pub(crate) fn read_folder(&mut self, server: usize) -> std::io::Result<()> {
        let Some(folder) = self.servers[server].folder.clone() else { return Ok(()) };
        let shards = self.hosts.len() as u16;
        let is_taken = |shard: u16| folder.coming(shard).is_some_and(|coming| coming.is_taken);
        let taken = (0..shards).filter(|shard| is_taken(*shard)).count() as u64;
        let kept = folder.begin(shards)?;
        self.locate();
        for &shard in &kept {
            if self.hosts[shard].process.is_some() {
                self.break_rule(format!(
                    "shard {shard} is served, and process {server} starts with it"
                ));
            }
        }
        let Some(moves) = &mut self.moves else { return Ok(()) };
        moves.counts.finished_at_start += taken;
        kept.iter().for_each(|&shard| moves.homes[shard] = server);
        self.servers[server].shards = kept;
        Ok(())
    }

    /// A process has started: it goes on with the moves of the process before it.
    pub(crate) fn resume_moves(&mut self, server: usize) {
        let Some(folder) = self.servers[server].folder.clone() else { return };
        if let Some(moves) = &mut self.moves {
            moves.later.retain(|later| *later != server);
        }
        for shard in 0..self.hosts.len() {
            if let Ok(Some(given)) = Given::read(&folder, shard as u16) {
                self.learn_given(server, &given.to);
                if folder.has(&store_name(shard as u16)) {
                    self.look_whether_clear(server, shard);
                }
            }
            match folder.coming(shard as u16) {
                Some(coming) => self.resume(server, shard, coming),
                None => self.forget_copy(server, shard),
            }
        }
        self.open_links(server);
    }

    /// A process has died. Its targets are gone, and its connections break.
    pub(crate) fn moves_die(&mut self, server: usize, power: bool) {
        let Some(folder) = self.servers[server].folder.clone() else { return };
        folder.died(power);
        for end in [End::Process(server), End::Target(server)] {
            for other in self.network.neighbours(end) {
                self.break_off(end, other);
            }
        }
        if let Some(moves) = &mut self.moves {
            let dead: Vec<_> = moves.coming.keys().filter(|key| key.0 == server).copied().collect();
            for key in dead {
                if let Some(coming) = moves.coming.remove(&key) {
                    moves.counts.dies(coming.stage());
                }
            }
        }
        self.locate();
    }

    /// Ends all faults of folders. Restarts the processes that moves wait for.
    pub(crate) fn heal_moves(&mut self) {
        self.servers.iter().filter_map(|server| server.folder.as_ref()).for_each(Folder::mend);
        let later = self.moves.as_mut().map(|moves| std::mem::take(&mut moves.later));
        for server in later.unwrap_or_default() {
            if self.servers[server].driven().is_some() {
                self.end(server, Death::Kill);
            }
        }
    }

    /// A connection with a target's question has broken: the question is lost.
    pub(crate) fn target_hears_nothing(&mut self, a: End, b: End) {
        let (End::Target(server), End::Process(_)) = (a.max(b), a.min(b)) else { return };
        let Some(moves) = &self.moves else { return };
        let lost = moves.coming.iter().filter(|((at, _), it)| *at == server && it.asks(a.min(b)));
        for (shard, number) in lost.map(|((_, shard), it)| (*shard, it.number)).collect::<Vec<_>>()
        {
            self.after(0, SimEvent::MoveSilent(server, shard, number));
        }
    }

    /// A target takes its next step, if it waits for this number.
    pub(crate) fn move_goes_on(&mut self, server: usize, shard: usize, number: u64) {
        if self.waits(server, shard, number) {
            self.drive(server, shard, Heard::Done);
        }
    }

    fn waits(&self, server: usize, shard: usize, number: u64) -> bool {
        let coming = self.moves.as_ref().and_then(|moves| moves.coming.get(&(server, shard)));
        coming.is_some_and(|coming| coming.number == number)
    }
}
