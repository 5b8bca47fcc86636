//! Performs one operation of a client, and notes it in the history.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use pando_client::{Client, Transport as _};
use pando_types::{Credentials, Errno, Judge};

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::check::EventIndex;
use crate::check::file_names;
use crate::clients::client::ClientRun;
use crate::clients::execute::Executed;
use crate::clients::noted::as_event;
use crate::judges::mark::MARK;
use crate::model::{Call, Op, Outcome};

impl ClientRun {
    pub(crate) async fn perform(
        &self,
        client: &Arc<Client>,
        lanes: &mut (usize, usize),
        random: &mut Random,
        credentials: Credentials,
        op: Op,
    ) -> Outcome {
        let call = Call { who: self.who, credentials, op };
        let event = lock(&self.shared.history).invoke(lanes.0, call.clone());
        let over_before = client.counters().sessions_over();
        let had_session = client.opens_lost().is_some();
        let mut marked = call.clone();
        // Where clients remember, no mark is to tell their questions apart.
        let is_marked = !self.shared.holds || !matches!(call.op, Op::Lookup(..) | Op::ReadDir(_));
        if let Judge::Shard(groups) = &mut marked.credentials.judge
            && is_marked
        {
            groups.push(MARK + event as u32);
        }
        let page = random.between(1, 9) as u32;
        let executed = as_event(event, self.execute(client, &marked, page)).await;
        let Executed { outcome, is_loose, attr } = executed;
        lock(&self.shared.history).walked(event, is_loose);
        let lost_session = client.counters().sessions_over() > over_before;
        lock(&self.known).ended(&call.op);
        if matches!(call.op, Op::Release(_)) && (lost_session || !had_session) {
            // The file was closed when the session ended, before this release was sent.
            let mut history = lock(&self.shared.history);
            let since = history.last_alive(lock(&self.sessions)[0]);
            history.backdate(event, since);
        }
        // A change of a directory's attributes is followed by a look at the directory. The
        // directory may have gone in between.
        let halfway = |errno| match &call.op {
            Op::SetAttr(ino, _) => errno == Errno::ESTALE && lock(&self.known).is_dir(*ino),
            _ => false,
        };
        if let Err(errno) = outcome
            && (matches!(errno, Errno::EIO | Errno::ETIMEDOUT | Errno::EINTR | Errno::ENOSPC)
                || halfway(errno))
        {
            // Whether the operation ran is unknown. It stays unanswered, and the lane goes on as
            // another one.
            lock(&self.shared.history).lose(event, errno, lost_session);
            *lanes = self.new_lanes();
            self.notice_losses(client, None).await;
            return outcome;
        }
        {
            let mut history = lock(&self.shared.history);
            history.respond(event, outcome.clone(), lanes.1);
            history.mark(event, attr);
        }
        // `Known` stands for a kernel, which does not see operations by path.
        if !matches!(call.op, Op::Mkdir(..) | Op::ByPath { .. }) && !file_names::concerns(&call.op)
        {
            lock(&self.known).learn(random, &call.op, &outcome);
        }
        self.notice_losses(client, Some(event)).await;
        outcome
    }

    /// Closes the files that were open when a session ended and that the next session could not
    /// open again. A program would close them in the end, too. False: the client has no session.
    pub(crate) async fn notice_losses(
        &self,
        client: &Arc<Client>,
        event: Option<EventIndex>,
    ) -> bool {
        let Some(lost) = client.opens_lost() else { return false };
        let mut closed = Vec::new();
        {
            let mut history = lock(&self.shared.history);
            let mut sessions = lock(&self.sessions);
            let is_new = sessions[1] != client.session();
            if is_new {
                *sessions = [sessions[1], client.session()];
            }
            let before = history.last_alive(sessions[0]);
            let since = event.map_or(before, |event| before.min(history.invoked(event)));
            if is_new {
                history.begun_anew(self.who, since);
            }
            for ino in lost {
                for _ in 0..lock(&self.known).forget_opens(ino) {
                    history.let_go(self.who, ino, since);
                    closed.push(ino);
                }
            }
        }
        self.losses.fetch_add(closed.len(), Ordering::Relaxed);
        for ino in closed {
            client.release(ino).await.ok();
        }
        true
    }
}

impl ClientRun {
    /// Runs a call. The program may be interrupted meanwhile, and then does not wait for the
    /// result.
    pub(crate) async fn execute(&self, client: &Arc<Client>, call: &Call, page: u32) -> Executed {
        let mut executing = pin!(self.execute_by_kernel(client, call, page));
        let here = self.shared.here.as_ref();
        let Some(after) = here.and_then(|here| here.interrupts(&call.op)) else {
            return executing.await;
        };
        let mut signal = self.shared.mail.sleep(after);
        let executed = std::future::poll_fn(|context| match executing.as_mut().poll(context) {
            Poll::Ready(executed) => Poll::Ready(Some(executed)),
            Poll::Pending => signal.as_mut().poll(context).map(|()| None),
        });
        executed.await.unwrap_or_else(|| {
            here.into_iter().for_each(|here| lock(&here.inner).counts.interrupted += 1);
            Executed { outcome: Err(Errno::EINTR), is_loose: false, attr: None }
        })
    }
}
