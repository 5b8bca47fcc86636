//! What happens to clients: they stand still, die, lose their sessions, and are replaced.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pando_client::Transport as _;
use pando_types::op::{Head, Op as Wire, Request};
use pando_types::{Credentials, SessionId, ShardIndex};

use crate::base::executor::TaskIndex;
use crate::base::lock::lock;
use crate::base::time::{MILLISECOND, SECOND};
use crate::clients::client::ClientRun;
use crate::network::cuts::Cut;
use crate::network::mail::Mail;
use crate::runs::state::{Run, Running};
use crate::world::state::event::SimEvent;

/// How often a run looks for a client that has answered what its shard has not applied.
const LOOKS_MAX: u32 = 1_000;
/// How long after a client's death its journals are sent at most, nanoseconds.
const INHERITED_WITHIN: u64 = 12 * SECOND;

impl Run {
    /// Some client stands still, sometimes for longer than its lease. What arrives for it waits.
    pub(crate) fn client_pauses(&mut self) {
        let nth = self.random.below(self.clients.len() as u64) as usize;
        let lease = self.world.config.lease;
        let length = match self.random.chance(1, 3) {
            true => self.random.between(MILLISECOND, lease),
            false => self.random.between(lease, 3 * lease),
        };
        let Running { run, tasks } = &self.clients[nth];
        for task in tasks {
            self.world.executor.pause(*task);
        }
        self.world.stats.pauses += 1;
        let line = format_args!("client {} stands still", run.who);
        self.world.trace.note(self.world.time, &[], line);
        self.world.after(length, SimEvent::ClientResumes(run.who));
    }

    /// Some client; if they borrow, one that has answered what its shard has not applied. `None`:
    /// no client has, so the event is to come again.
    fn victim(&mut self, again: SimEvent) -> Option<usize> {
        if !self.world.config.lends {
            return Some(self.random.below(self.clients.len() as u64) as usize);
        }
        let is_holder = |(_, client): &(usize, &Running)| client.run.has_unsent();
        let holders = self.clients.iter().enumerate().filter(is_holder);
        let holders: Vec<_> = holders.map(|(nth, _)| nth).collect();
        if !holders.is_empty() {
            return Some(*self.random.pick(&holders));
        }
        self.looks += 1;
        if self.looks > LOOKS_MAX {
            return Some(self.random.below(self.clients.len() as u64) as usize);
        }
        self.world.after(self.random.between(MILLISECOND, 3 * MILLISECOND), again);
        None
    }

    /// Some client is away, mostly for longer than it may use what it has borrowed. It stands
    /// still, its machine sleeps, or it is cut off from one shard, from the first, or from all.
    pub(crate) fn client_is_away(&mut self) {
        let Some(nth) = self.victim(SimEvent::ClientIsAway) else { return };
        let length = match self.random.chance(1, 4) {
            true => self.random.between(400, 7_000) * MILLISECOND,
            false => self.random.between(7_000, 14_000) * MILLISECOND,
        };
        let (time, who) = (self.world.time, self.clients[nth].run.who);
        let shard = match self.random.below(6) {
            how @ 0..3 => {
                return self.stand_still(nth, length, how == 0);
            }
            3 => Some(0),
            4 => Some(self.random.below(self.world.config.shards.into()) as usize),
            _ => None,
        };
        let cut = Cut::off(who, shard, time + length);
        self.world.trace.note(time, &[], format_args!("client {who} is cut off: {cut:?}"));
        self.world.stats.loans.cut_off += 1;
        self.world.network.cuts.add(cut, time);
    }

    fn stand_still(&mut self, nth: usize, length: u64, sleeps: bool) {
        let Running { run, tasks } = &self.clients[nth];
        for task in tasks {
            self.world.executor.pause(*task);
        }
        let (who, seconds) = (run.who, length as f64 / 1e9);
        let line = format_args!("client {who} stands still for {seconds} s");
        self.world.trace.note(self.world.time, &[], line);
        self.world.stats.loans.stood_still += 1;
        self.away.insert(who, (self.world.time + length, if sleeps { length } else { 0 }));
        self.world.after(length, SimEvent::ClientResumes(who));
    }

    pub(crate) fn client_resumes(&mut self, who: u32) {
        let Some(client) = self.clients.iter().find(|client| client.run.who == who) else { return };
        match self.away.get(&who) {
            Some((until, _)) if self.world.time < *until => return,
            Some((_, slept)) => client.run.shared.mail.has_slept(*slept),
            None => {}
        }
        self.away.remove(&who);
        self.world.trace.note(self.world.time, &[], format_args!("client {who} goes on"));
        for task in &client.tasks {
            self.world.executor.resume(*task);
        }
    }

    /// Some client dies, and another takes its place. Its session is ended by a request, or when
    /// its lease ends.
    pub(crate) fn client_dies(&mut self) {
        let Some(nth) = self.victim(SimEvent::ClientDies) else { return };
        let is_over = |task: &TaskIndex| self.world.executor.is_over(*task);
        let Running { run, tasks } = &self.clients[nth];
        if run.client().is_none() || tasks.iter().all(is_over) {
            return;
        }
        if run.shared.here.is_some() {
            self.world.crash(0);
            return;
        }
        let dead = self.clients.swap_remove(nth);
        let (dead_run, who) = (Arc::clone(&dead.run), dead.run.who);
        self.world.stats.client_deaths += 1;
        if let Some(session) = self.bury_client(dead)
            && self.random.chance(1, 3)
        {
            let delay = self.random.below(300 * MILLISECOND);
            let reaper = bury(self.shared.mail.of(who), session, delay);
            self.others.push(self.world.executor.spawn(reaper));
        }
        self.begin_client(None, self.world.config.operations);
        self.inherit(&dead_run);
    }

    /// The last client has the machine of a dead one: it sends what that has left, at once or after
    /// a while, if the machine did not lose its power.
    fn inherit(&mut self, dead: &ClientRun) {
        let left = dead.leaves();
        if left.is_empty() {
            return;
        }
        if self.random.chance(1, 3) {
            return dead.loses(&left);
        }
        let delay = match self.random.chance(1, 2) {
            true => 0,
            false => self.random.below(INHERITED_WITHIN),
        };
        let Some(Running { run, tasks }) = self.clients.last_mut() else { return };
        for journal in run.inherits(left) {
            let task = Arc::clone(run).send_journal(journal, delay);
            tasks.push(self.world.executor.spawn(task));
        }
    }

    /// Ends a dead client's tasks. Returns the session that the client had.
    pub(crate) fn bury_client(&mut self, dead: Running) -> Option<SessionId> {
        for task in dead.tasks {
            self.world.executor.kill(task);
        }
        let session = dead.run.client().map(|client| client.session());
        lock(&self.shared.locks).dies(dead.run.who);
        let line = format_args!("client {} dies, session {session:?}", dead.run.who);
        self.world.trace.note(self.world.time, &[], line);
        // The session may have ended before the client died.
        let mut history = lock(&self.shared.history);
        let since = history.last_alive(dead.run.session_noticed());
        history.gone(dead.run.who, since);
        drop(history);
        self.dead.push(dead.run);
        session
    }
}

impl Run {
    /// Ends the session of a working client by a request, as if its lease had ended.
    pub(crate) fn session_ends(&mut self) {
        let nth = self.random.below(self.clients.len() as u64) as usize;
        let Some(client) = self.clients[nth].run.client() else { return };
        let (who, session) = (self.clients[nth].run.who, client.session());
        let line = format_args!("session {session} of client {who} is to end");
        self.world.trace.note(self.world.time, &[], line);
        lock(&self.shared.locks).counts.ended += 1;
        let reaper = crate::runs::clients::bury(self.shared.mail.of(who), session, 0);
        self.others.push(self.world.executor.spawn(reaper));
    }
}

impl Run {
    /// Replaces clients that have died with their process. The new clients do the operations that
    /// are left.
    pub(crate) fn heed_local_deaths(&mut self) {
        let Some(here) = self.world.here.clone() else { return };
        if !std::mem::take(&mut lock(&here.inner).has_died) {
            return;
        }
        let is_done = |task: &_| self.world.executor.is_over(*task);
        let (dead, others) = std::mem::take(&mut self.clients)
            .into_iter()
            .partition(|it| it.run.shared.here.is_some() && !it.tasks.iter().all(is_done));
        let dead: Vec<_> = dead;
        self.clients = others;
        for client in dead {
            lock(&here.inner).counts.died += 1;
            let left = client.run.left.load(Ordering::Relaxed);
            self.bury_client(client);
            self.begin_client(Some(&here), left.div_ceil(self.world.config.lanes as u64).max(3));
        }
    }
}

/// Ends a session by a request to shard 0, after a delay in nanoseconds. Repeats the request until
/// it is answered.
pub(crate) async fn bury(mail: Mail, session: SessionId, delay: u64) {
    mail.sleep(delay).await;
    let op = Wire::EndSession(session);
    let request =
        Request { head: Head::default(), credentials: Credentials::ROOT, op, trail: None };
    while mail.call(ShardIndex(0), Box::new(request.clone())).await.is_err() {
        mail.sleep(20 * MILLISECOND).await;
    }
}
