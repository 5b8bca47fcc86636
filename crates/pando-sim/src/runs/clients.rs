//! What happens to clients: they stand still, die, lose their sessions, and are replaced.

use std::sync::atomic::Ordering;

use pando_client::Transport as _;
use pando_types::op::{Head, Op as Wire, Request};
use pando_types::{Credentials, SessionId, ShardIndex};

use crate::base::executor::TaskIndex;
use crate::base::lock::lock;
use crate::base::time::MILLISECOND;
use crate::network::mail::Mail;
use crate::runs::state::{Run, Running};
use crate::world::state::event::SimEvent;

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

    pub(crate) fn client_resumes(&mut self, who: u32) {
        let Some(client) = self.clients.iter().find(|client| client.run.who == who) else { return };
        self.world.trace.note(self.world.time, &[], format_args!("client {who} goes on"));
        for task in &client.tasks {
            self.world.executor.resume(*task);
        }
    }

    /// Some client dies, and another takes its place. Its session is ended by a request, or when
    /// its lease ends.
    pub(crate) fn client_dies(&mut self) {
        let nth = self.random.below(self.clients.len() as u64) as usize;
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
        let who = dead.run.who;
        self.world.stats.client_deaths += 1;
        if let Some(session) = self.bury_client(dead)
            && self.random.chance(1, 3)
        {
            let delay = self.random.below(300 * MILLISECOND);
            let reaper = bury(self.shared.mail.of(who), session, delay);
            self.others.push(self.world.executor.spawn(reaper));
        }
        self.begin_client(None, self.world.config.operations);
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
