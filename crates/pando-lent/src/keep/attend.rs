//! News of grants, from one shard.

use pando_client::Transport;
use pando_types::lend::{GrantNews, Standing};
use pando_types::op::{KNOWN_MAX, Op};
use pando_types::reply::{Body, Refusal};
use pando_types::{SessionId, ShardIndex, TxnId};

use crate::borrowing::Borrowing;
use crate::settings::{AGAIN, IDLE, LINGER};
use crate::side::{State, Use};

impl<T: Transport> Borrowing<T> {
    /// Asks a shard for news while something of it is held, until the transport is stopped.
    pub(crate) async fn attend(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let Some((session, recalled, over)) = self.to_ask(shard) else {
                side.to_attend.notified().await;
                continue;
            };
            let asked = self.inner.machine_nanos();
            let attend = Op::Attend { shard, session, recalled, over: over.clone() };
            let Some(reply) = self.ask(shard, attend).await else { return };
            match &reply.result {
                Ok(Body::Attended(news)) => {
                    self.attended(shard, news, &over, asked);
                    // Such an answer does not wait either.
                    let is_heard =
                        !news.reads.is_empty() && self.memory.all_end(shard, &news.reads);
                    let reads = (&news.reads[..], news.prolongs);
                    let now = self.inner.machine_nanos();
                    self.memory.attended(shard, reads, (&over, asked), now);
                    self.to_end.notify_one();
                    // Whoever waits for what is lost hears of it.
                    self.tell_set_aside(shard);
                    side.changed.notify_waiters();
                    side.to_send.notify_one();
                    let took = self.inner.machine_nanos().saturating_sub(asked);
                    if !news.prolongs || is_heard || side.lock().queue.is_broken() {
                        // Such an answer does not wait, or the same news come again.
                        self.inner.sleep(AGAIN).await;
                    } else if took < LINGER && news.recalled.is_empty() {
                        self.inner.sleep(LINGER).await;
                    }
                }
                Err(Refusal::NoSession) => {
                    side.lock().end_session(self.inner.machine_nanos());
                    self.reads_end_at(shard);
                    self.inner.sleep(AGAIN).await;
                }
                _ => self.inner.sleep(AGAIN).await,
            }
            side.changed.notify_waiters();
            side.to_send.notify_one();
        }
    }
}

impl<T: Transport> Borrowing<T> {
    /// Takes in the answer to a question that was asked at `asked`, and told these to be over.
    fn attended(&self, shard: ShardIndex, news: &GrantNews, told: &[TxnId], asked: u64) {
        let mut state = self.side(shard).lock();
        for grant in told {
            state.over.remove(grant);
            state.births.remove(grant);
        }
        let now = self.inner.machine_nanos();
        let mut its = news.recalled.iter().chain(news.over.iter().map(|(grant, _)| grant));
        if its.any(|grant| !told.contains(grant) && !state.knows(*grant)) {
            state.told_of_others = now;
        }
        state.take_news(shard, news, asked, now);
    }

    /// The session, and what it knows of recalls and of grants that are over. `None`: nothing of
    /// the shard is held.
    fn to_ask(&self, shard: ShardIndex) -> Option<(SessionId, Vec<TxnId>, Vec<TxnId>)> {
        let now = self.inner.machine_nanos();
        let mut state = self.side(shard).lock();
        state.return_idle(now);
        if state.queue.unsent() > 0 {
            self.side(shard).to_send.notify_one();
        }
        let recalled = state.returning.iter().copied().collect();
        let mut over = state.over_for_good();
        let attends = state.attends();
        let reader = self.memory.to_tell(shard, now);
        self.to_end.notify_one();
        let session = match &reader {
            Some((session, _)) if !attends => *session,
            Some((session, _)) if *session != state.session => {
                // News are asked for by one session only.
                self.reads_end_at(shard);
                state.session
            }
            _ => state.session,
        };
        let back = reader.map(|(_, back)| back);
        let asks = attends || back.is_some();
        over.extend(back.into_iter().flatten());
        over.truncate(KNOWN_MAX);
        asks.then_some((session, recalled, over))
    }
}

impl State {
    /// Grants that the shard may forget: none of which something may be sent again. That is noted
    /// first, or the shard keeps them.
    fn over_for_good(&mut self) -> Vec<TxnId> {
        if self.over.is_empty() {
            return Vec::new();
        }
        let kept = self.queue.grants();
        let is_done = |grant: &TxnId| !kept.contains(grant);
        let done: Vec<_> = self.over.iter().copied().filter(is_done).collect();
        for grant in &done {
            self.queue.over(*grant);
        }
        if self.queue.is_broken() { Vec::new() } else { done }
    }

    fn take_news(&mut self, shard: ShardIndex, news: &GrantNews, asked: u64, now: u64) {
        self.give_back(&news.recalled, now);
        for (grant, told) in &news.over {
            // It is not over before the shard has heard what is open.
            match told.standing {
                Standing::Fenced if self.reopening.contains_key(grant) => {}
                Standing::Fenced => {
                    self.lose(*grant, told, now);
                    if !self.reopening.contains_key(grant) {
                        self.is_over(*grant);
                    }
                }
                // The answer to the stream tells from where on what is applied is durable.
                _ if !self.is_all_sent(*grant) => {}
                _ => self.is_returned(*grant, told.applied),
            }
        }
        if news.prolongs {
            self.prolong(shard, if is_planted!(HoldFromAnswer) { now } else { asked });
        }
    }

    /// Gives back what has not been used for a while.
    fn return_idle(&mut self, now: u64) {
        let Some(lent) = &self.lent else { return };
        let is_idle = |its: &Use| its.last.saturating_add(IDLE) <= now;
        // What the shard has not heard of in time may not be used any more.
        let is_void = |grant: TxnId, its: &Use| its.until <= now && self.is_doubtful(grant);
        let idle: Vec<_> = lent
            .uses
            .iter()
            .filter(|(grant, its)| is_idle(its) || is_void(**grant, its))
            .map(|(grant, _)| *grant)
            .collect();
        self.give_back(&idle, now);
    }

    /// The session is over at the shard: what it has is given back.
    fn end_session(&mut self, now: u64) {
        let Some(lent) = &self.lent else { return };
        let all: Vec<_> = lent.core.parts().map(|(grant, _)| grant).collect();
        self.give_back(&all, now);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pando_core::LentCore;
    use pando_core::contract::Config;
    use pando_placement::{ClusterMap, Secrets};
    use pando_types::lend::{Act, Change, Element, GrantState, HOLD, Loan};
    use pando_types::{DirRef, Epoch, Ino, Lsn, PartitionIndex};

    use super::*;
    use crate::journal::{Journal, Storage};
    use crate::side::Lent;

    const GRANT: TxnId = TxnId { shard: ShardIndex(0), number: 7 };

    /// Until when parts may be used after an answer that comes late.
    fn held_until(asked: u64, now: u64) -> u64 {
        let secrets = Secrets { dir: [0; 32], name: [0; 16] };
        let config = Config::new(ShardIndex(0), ClusterMap::new(1), secrets);
        let mut state = State::default();
        let mut core = LentCore::new(config, SessionId(1), state.moment(0)).unwrap();
        let partition = PartitionIndex(0);
        core.begin(
            Loan { grant: GRANT, partition, inos: Vec::new(), entries_max: 0 },
            DirRef::ROOT,
        );
        state.lent = Some(Lent { core, until: 0, uses: BTreeMap::new() });
        state.take_news(
            GRANT.shard,
            &GrantNews { prolongs: true, ..GrantNews::default() },
            asked,
            now,
        );
        state.lent.map_or(0, |lent| lent.until)
    }

    #[test]
    fn a_hold_is_counted_from_the_question() {
        assert_eq!(held_until(5, 5 + HOLD), 5 + HOLD);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn a_hold_that_is_counted_from_the_answer_is_found() {
        crate::Planted::plant(Some(crate::Planted::HoldFromAnswer));
        let until = held_until(5, 5 + HOLD);
        crate::Planted::plant(None);
        assert_ne!(until, 5 + HOLD);
    }

    /// Two parts of a directory were fenced, and the shard has heard what is open in one of them.
    #[test]
    fn requests_wait_until_all_parts_of_a_directory_are_reopened() {
        let other = TxnId { number: GRANT.number + 1, ..GRANT };
        let dir = DirRef::ROOT.id;
        let mut state = State::default();
        state.held_up.insert(dir);
        state.reopening.extend([(GRANT, dir), (other, dir)]);
        state.is_over(GRANT);
        assert!(state.holds_up(&Op::DirGetAttr(DirRef::ROOT)));
        state.is_over(other);
        assert!(!state.holds_up(&Op::DirGetAttr(DirRef::ROOT)));
    }

    /// It takes the head of a journal, and no more.
    struct Full;

    impl Storage for Full {
        fn write(&self, offset: u64, _: &[u8]) -> std::io::Result<()> {
            if offset == 0 { Ok(()) } else { Err(std::io::ErrorKind::StorageFull.into()) }
        }
    }

    #[test]
    fn a_shard_does_not_forget_a_grant_of_which_something_may_be_sent_again() {
        let mut state = State::default();
        state.queue.push(Element { grant: GRANT, number: 1, act: Act::Return(None) }, 5);
        state.queue.applied(GRANT, 1, (Epoch(1), Lsn(9)));
        state.is_over(GRANT);
        assert_eq!(state.over_for_good(), []);
        state.queue.durable(Epoch(1), Lsn(9));
        assert_eq!(state.over_for_good(), [GRANT]);
    }

    #[test]
    fn a_shard_does_not_forget_a_grant_whose_end_could_not_be_noted() {
        let mut state = State::default();
        state.queue.journal = Some(Journal::new(Box::new(Full), GRANT.shard).unwrap());
        state.is_over(GRANT);
        assert_eq!(state.over_for_good(), []);
        assert!(!state.attends());
    }

    #[test]
    fn news_of_a_return_do_not_make_durable_what_is_under_way() {
        let mut state = State::default();
        state.queue.push(Element { grant: GRANT, number: 1, act: Act::Return(None) }, 5);
        let returned = GrantState { applied: 1, standing: Standing::Returned, inos: Vec::new() };
        let news = GrantNews { over: vec![(GRANT, returned)], ..GrantNews::default() };
        state.take_news(GRANT.shard, &news, 6, 7);
        assert!(!state.queue.is_empty());
        state.queue.applied(GRANT, 1, (Epoch(1), Lsn(9)));
        state.take_news(GRANT.shard, &news, 6, 7);
        assert_eq!(state.over_for_good(), [], "the shard may lose it");
        state.queue.durable(Epoch(1), Lsn(9));
        assert_eq!(state.over_for_good(), [GRANT]);
    }

    #[test]
    fn what_was_applied_before_a_fence_is_not_set_aside() {
        let change = || Change { asked: Vec::new(), stamp: 0, ino: Ino(0), digest: 0, after: 0 };
        let mut state = State::default();
        for number in 1..=3 {
            state.queue.push(Element { grant: GRANT, number, act: Act::Change(change()) }, 5);
        }
        let fenced = GrantState { applied: 2, standing: Standing::Fenced, inos: Vec::new() };
        let news = GrantNews { over: vec![(GRANT, fenced)], ..GrantNews::default() };
        state.take_news(GRANT.shard, &news, 6, 7);
        let lost: Vec<_> = state.take_set_aside().iter().map(|(it, _)| it.number).collect();
        assert_eq!(lost, [3]);
        assert!(state.queue.is_empty());
    }
}
