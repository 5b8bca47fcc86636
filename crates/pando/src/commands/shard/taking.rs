//! Asks the owners of hash slots to hand them over to a new shard.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pando_client::{Transport, block_on};
use pando_placement::ClusterMap;
use pando_types::op::{Head, Op, Request};
use pando_types::reply::Refusal;
use pando_types::{Credentials, Errno, HashSlot, SHARDS_MAX, ShardIndex};
use parking_lot::Mutex;

use super::share::share;
use crate::commands::shard::args::ShardAddArgs;
use crate::console::meter::{Meter, Unit};
use crate::failure::Failure;

/// Pause after a shard did not answer.
pub const PAUSE: Duration = Duration::from_millis(200);
/// Hash slots that one shard may be handing over at one time. A shard allows fewer if they hold
/// rows.
const AT_ONCE: usize = 32;
/// After this many hash slots that are still under way, no further one is polled in a round. It is
/// more than the number of hash slots with rows that a shard hands over at one time.
const BUSY_MAX: usize = 4;
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Interval of checks whether a progress line is due, and whether all hash slots have moved.
const TELL_WITHIN: Duration = Duration::from_millis(20);

pub fn take_over(
    transport: &dyn Transport,
    map: &ClusterMap,
    shard: ShardIndex,
    args: &ShardAddArgs,
) -> Result<u64, Failure> {
    let mut queues = vec![VecDeque::new(); usize::from(SHARDS_MAX)];
    for hash_slot in share(shard) {
        let owner = map.hash_slot_owner(hash_slot);
        if owner != shard {
            queues[usize::from(owner.0)].push_back(hash_slot);
        }
    }
    let total: u64 = queues.iter().map(|queue| queue.len() as u64).sum();
    let work = Work {
        queues: queues.into_iter().map(Mutex::new).collect(),
        left: total.into(),
        moved: 0.into(),
        failure: Mutex::new(None),
        began: Instant::now(),
        rate: args.rate,
    };
    // The bar is drawn on a terminal only.
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} hash slots, {eta} left") {
        bar.set_style(style);
    }
    let every = Duration::from_millis(args.tell_every);
    let mut meter = Meter::new(&format!("shard {shard}"), Unit::HashSlots, every);
    std::thread::scope(|scope| {
        for owner in (0..map.shards).filter(|&owner| owner != shard.0) {
            let (work, bar, owner) = (&work, &bar, ShardIndex(owner));
            scope.spawn(move || Owner { transport, work, bar, owner, to: shard }.drain());
        }
        loop {
            meter.tell("", work.moved.load(Ordering::Relaxed), total);
            if work.is_over() {
                break;
            }
            std::thread::sleep(TELL_WITHIN);
        }
    });
    bar.finish_and_clear();
    if let Some(why) = work.failure.into_inner() {
        return Err(Failure::plain(why));
    }
    let moved = work.moved.into_inner();
    meter.finish(moved);
    Ok(moved)
}

/// Sends a request to a shard. `None`: it did not answer.
pub fn ask(transport: &dyn Transport, shard: ShardIndex, op: Op) -> Option<Result<(), Refusal>> {
    let request =
        Request { head: Head::default(), credentials: Credentials::ROOT, op, trail: None };
    let reply = block_on(transport.call(shard, request.into())).ok()?;
    Some(reply.result.map(drop))
}

/// Hash slots that have not moved yet, by the shard that is thought to own them, and the progress
/// so far.
struct Work {
    queues: Vec<Mutex<VecDeque<HashSlot>>>,
    left: AtomicU64,
    moved: AtomicU64,
    failure: Mutex<Option<String>>,
    began: Instant,
    rate: u64,
}

impl Work {
    /// The next hash slot to ask this owner for, if the rate allows another one.
    fn next(&self, owner: ShardIndex) -> Option<HashSlot> {
        let may = self.began.elapsed().as_millis() as u64 * self.rate / 1_000;
        if self.moved.load(Ordering::Relaxed) > may {
            return None;
        }
        self.queue(owner).lock().pop_front()
    }

    /// Puts a hash slot back at the end of its owner's queue.
    fn put_back(&self, owner: ShardIndex, hash_slot: HashSlot) {
        self.queue(owner).lock().push_back(hash_slot);
    }

    fn queue(&self, owner: ShardIndex) -> &Mutex<VecDeque<HashSlot>> {
        &self.queues[usize::from(owner.0).min(self.queues.len() - 1)]
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 || self.failure.lock().is_some()
    }
}

/// The state of a hash slot that a shard was asked to hand over.
enum Answer {
    Begun,
    /// Its handover has begun already, or cannot begin now.
    Busy,
    /// The shard need not be asked for this hash slot any more: it has moved, has another owner,
    /// or has failed.
    Over,
    Silent,
}

/// A shard that hands its hash slots over, as one thread sees it.
struct Owner<'a> {
    transport: &'a dyn Transport,
    work: &'a Work,
    bar: &'a ProgressBar,
    owner: ShardIndex,
    /// The new shard.
    to: ShardIndex,
}

impl Owner<'_> {
    /// Asks the shard to hand over its hash slots, until none is left at any shard. Other shards
    /// may still hand hash slots to this one.
    fn drain(&self) {
        let mut under_way: Vec<HashSlot> = Vec::new();
        while !self.work.is_over() {
            let (mut is_silent, mut busy) = (false, 0);
            let before = under_way.len();
            under_way.retain(|&hash_slot| {
                // Hash slots that began together end together. If these are busy, the rest is busy
                // as well.
                if is_silent || busy == BUSY_MAX {
                    return true;
                }
                let answer = self.hand_over(hash_slot);
                is_silent = matches!(answer, Answer::Silent);
                busy += usize::from(matches!(answer, Answer::Busy));
                !matches!(answer, Answer::Over)
            });
            let mut has_changed = under_way.len() < before;
            while !is_silent
                && under_way.len() < AT_ONCE
                && let Some(hash_slot) = self.work.next(self.owner)
            {
                let answer = self.hand_over(hash_slot);
                is_silent = matches!(answer, Answer::Silent);
                match answer {
                    Answer::Begun => under_way.push(hash_slot),
                    Answer::Over => {}
                    Answer::Busy | Answer::Silent => {
                        self.work.put_back(self.owner, hash_slot);
                        break;
                    }
                }
                has_changed = true;
            }
            if is_silent {
                std::thread::sleep(PAUSE);
            } else if !has_changed {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    fn hand_over(&self, hash_slot: HashSlot) -> Answer {
        let op = Op::HandOver(self.owner, hash_slot, self.to);
        match ask(self.transport, self.owner, op) {
            None => return Answer::Silent,
            Some(Ok(())) => return Answer::Begun,
            Some(Err(Refusal::Errno(Errno::EBUSY) | Refusal::AskHome)) => return Answer::Busy,
            Some(Err(Refusal::HashSlot(news))) if news.owner == self.to => {
                self.work.moved.fetch_add(1, Ordering::Relaxed);
                self.work.left.fetch_sub(1, Ordering::Release);
                self.bar.inc(1);
            }
            Some(Err(Refusal::HashSlot(news))) => self.work.put_back(news.owner, hash_slot),
            Some(Err(refusal)) => {
                let (owner, hash_slot) = (self.owner, hash_slot.0);
                let why =
                    format!("shard {owner} does not hand over hash slot {hash_slot}: {refusal}");
                self.work.failure.lock().get_or_insert(why);
            }
        }
        Answer::Over
    }
}
