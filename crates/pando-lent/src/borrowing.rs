//! The transport: it answers here, or lets travel.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use futures_util::future::{join, join_all, join3, join4};
use pando_client::{BoxFuture, Called, Calling, Grounds, Transport, TransportError};
use pando_types::lend::{Element, LentRows};
use pando_types::op::{AccessMask, FileRef, Op, Request, RequestId};
use pando_types::reply::{Body, Reply};
use pando_types::{Attr, Credentials, DirId, Order, SHARDS_MAX, SessionId, ShardIndex, TxnId};
use tokio::sync::Notify;

use crate::answer::Step;
use crate::aside::{Hears, SetAside};
use crate::counts::{Counts, Sums, add};
use crate::known::births::Asked;
use crate::known::eager::Watched;
use crate::known::places::Places;
use crate::known::reach::Reach;
use crate::known::requests::own;
use crate::memory::{Asked as Read, Memory};
use crate::settings::{AGAIN, BATCH, Settings};
use crate::side::Side;

/// A transport that answers from lent parts, over another.
pub struct Borrowing<T> {
    pub(crate) inner: T,
    pub(crate) settings: Settings,
    sides: Vec<OnceLock<Side>>,
    hears: OnceLock<Box<dyn Hears>>,
    pub(crate) places: Places,
    pub(crate) asked: Asked,
    /// Told when an element names objects that may not be durable.
    pub(crate) to_sync_objects: Notify,
    pub(crate) memory: Memory,
    /// What the kernel may remember by grants.
    pub(crate) grounds: Arc<Grounds>,
    /// Told when read grants end.
    pub(crate) to_end: Notify,
    /// Whether nothing is to be lent at its birth any more: this client closes, a journal failed,
    /// or there are shards that it does not know.
    pub(crate) is_barren: AtomicBool,
    pub(crate) sums: Sums,
}

impl<T: Transport> Borrowing<T> {
    /// Answers from lent parts, over `inner`. Without [`Borrowing::keep`] nothing is borrowed.
    pub fn new(inner: T, settings: Settings) -> Self {
        let grounds = Arc::new(Grounds::default());
        let sides = (0..SHARDS_MAX).map(|_| OnceLock::new()).collect();
        Self {
            inner,
            settings,
            sides,
            hears: OnceLock::new(),
            places: Places::default(),
            asked: Asked::default(),
            to_sync_objects: Notify::default(),
            memory: Memory::new(&grounds),
            grounds,
            to_end: Notify::default(),
            is_barren: AtomicBool::new(false),
            sums: Sums::default(),
        }
    }

    pub(crate) fn side(&self, shard: ShardIndex) -> &Side {
        self.sides[usize::from(shard.0)].get_or_init(|| Side::new(&self.grounds))
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardIndex> {
        (0..self.settings.map.shards).map(ShardIndex)
    }

    /// Borrows, sends, and attends, for as long as the client lives: drive it once.
    pub async fn keep(&self) {
        let shards = self.shards().map(|shard| {
            let asks = join(self.sync(shard), self.ask_coordinators(shard));
            let borrows = join3(self.borrow(shard), self.read(shard), self.give_reads_back(shard));
            join4(borrows, self.send(shard), self.attend(shard), asks)
        });
        join4(join_all(shards), self.return_strays(), self.keep_synced(), self.keep_fallen()).await;
    }

    /// What is known of shards that were asked something.
    pub(crate) fn begun(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter_map(OnceLock::get)
    }

    /// Removes the journal, if shards have all that was answered. Nothing is answered any more.
    pub fn end_notes(&self) -> std::io::Result<()> {
        let is_sent = self.begun().all(|side| side.lock().queue.unsent() == 0);
        self.settings.notes.as_ref().filter(|_| is_sent).map_or(Ok(()), |notes| notes.end())
    }

    /// What it has done, and what it has.
    pub fn counts(&self) -> Counts {
        let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        let Sums { answered, lent, amended, set_aside } = &self.sums;
        let mut counts = Counts {
            answered: of(answered),
            lent: of(lent),
            amended: of(amended),
            set_aside: of(set_aside),
            remembered: self.remembered(),
            reads: self.memory.grants(),
            ..Counts::default()
        };
        for side in self.begun() {
            let state = side.lock();
            counts.parts += state.lent.as_ref().map_or(0, |lent| lent.uses.len() as u64);
            counts.unsent += state.queue.unsent() as u64;
        }
        counts
    }

    /// Number of requests that were answered from what was read while the session holds.
    pub fn remembered(&self) -> u64 {
        self.memory.answered()
    }

    /// Has `hears` told of what is lost. Only the first one counts.
    pub fn watch(&self, hears: Box<dyn Hears>) {
        let _ = self.hears.set(hears);
    }

    pub(crate) fn hears(&self) -> Option<&dyn Hears> {
        self.hears.get().map(Box::as_ref)
    }

    /// Tells of what was set aside, if somebody is to hear. Before requests go on that waited.
    pub(crate) fn tell_set_aside(&self, shard: ShardIndex) {
        let Some(hears) = self.hears() else { return };
        let lost = self.side(shard).lock().take_set_aside();
        let lost: Vec<_> =
            lost.iter().filter_map(|(it, why)| SetAside::of(shard, it, *why)).collect();
        if !lost.is_empty() {
            add(&self.sums.set_aside, lost.len());
            hears.set_aside(lost);
        }
    }

    /// Elements that were answered, and are not known to be durable.
    pub fn not_durable(&self) -> Vec<Element> {
        let of = |shard| self.side(shard).lock().not_durable();
        self.shards().flat_map(of).collect()
    }

    /// The grant under which an operation is answered here, and the number of its last element.
    pub fn stands_on(&self, shard: ShardIndex, op: &Op) -> Option<(TxnId, u64)> {
        let state = self.side(shard).lock();
        let core = &state.lent.as_ref()?.core;
        core.grants_of(op).into_iter().find_map(|it| Some((it, core.last_element(it)?)))
    }

    /// Asks a shard until it answers. `None`: the transport is stopped.
    pub(crate) async fn ask(&self, shard: ShardIndex, op: Op) -> Option<Box<Reply>> {
        loop {
            let asked = self.inner.machine_nanos();
            match self.inner.call(shard, own(op.clone())).await {
                Ok(reply) => {
                    let moments = (asked, self.inner.machine_nanos());
                    if self.side(shard).lock().heard(&reply, moments) {
                        self.reads_end_at(shard);
                        self.side(shard).to_send.notify_one();
                    }
                    return Some(reply);
                }
                Err(TransportError::Stopped) => return None,
                Err(TransportError::Lost) => self.inner.sleep(AGAIN).await,
            }
        }
    }

    fn step(&self, shard: ShardIndex, request: &Request) -> Step {
        let side = self.side(shard);
        let now = self.inner.machine_nanos();
        let mut state = side.lock();
        let step = state.step(shard, request, now);
        // Between the first element and a whole batch the sender wakes by itself.
        let unsent = state.queue.unsent();
        let has_more =
            unsent == 1 || unsent > 0 && (unsent.is_multiple_of(BATCH) || state.is_urgent);
        // Before the part can be given back, and a request about it travel.
        if let Step::Answered(reply) | Step::Unnoted(reply) = &step {
            self.memory.changed_here(&request.op, reply);
            if request.op.objects().next().is_some() {
                self.to_sync_objects.notify_one();
            }
        }
        drop(state);
        if matches!(step, Step::Answered(_)) {
            add(&self.sums.answered, 1);
        }
        if has_more {
            side.to_send.notify_one();
        }
        step
    }

    /// The answer to a request whose answer is known while this session holds.
    pub(crate) fn answer_again(&self, shard: ShardIndex, request: &Request) -> Option<Box<Reply>> {
        let now = self.inner.machine_nanos();
        let result = self.memory.answer(request, self.settings.opens, now)?;
        let reply = self.side(shard).lock().reply_of(request, shard, now, result);
        // The shard told its time when it was asked. This side tells nothing newer.
        Some(Box::new(Reply { clock: 0, ..*reply }))
    }

    /// Answers a request that could not be answered at once.
    pub(crate) async fn call_later(&self, shard: ShardIndex, request: Box<Request>) -> Called {
        let side = self.side(shard);
        if matches!(request.op, Op::Unlock(..) | Op::Lock(..) | Op::LockOf(..)) {
            // The next holder of a lock finds all that was done under it.
            self.flush_all().await;
            return self.travel(shard, request).await;
        }
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            match self.step(shard, &request) {
                Step::Answered(reply) => return Ok(reply),
                Step::Unnoted(reply) => return self.unnoted(shard, reply).await,
                Step::Travels => {
                    if let Some(entry) = self.entry_here(shard, &request) {
                        return self.travel_beside(shard, request, entry).await;
                    }
                    match self.beside(shard, &request) {
                        beside if beside.is_empty() => return self.travel(shard, request).await,
                        beside => self.hand_back(beside).await,
                    }
                }
                Step::Under(dir, under) => {
                    return self.travel_under(shard, request, (dir, under)).await;
                }
                Step::Waits => changed.await,
                Step::Fetches(grant, order) => self.fetch(shard, grant, order).await?,
                Step::Syncs(grants) => {
                    self.flush_of(shard, grants.as_deref()).await;
                    return self.inner.call(shard, Self::synced(shard, &request)).await;
                }
            }
        }
    }

    /// Answers what could not be noted, once the shard has it.
    async fn unnoted(&self, shard: ShardIndex, reply: Box<Reply>) -> Called {
        self.journal_failed(shard);
        self.flush(shard).await;
        Ok(reply)
    }

    /// The request that waits for a sync of the shard, for one that asks that something be durable.
    /// All that was answered is applied.
    fn synced(shard: ShardIndex, request: &Request) -> Box<Request> {
        Box::new(Request { op: Op::Sync(shard), ..request.clone() })
    }

    /// Gets all rows of a file.
    async fn fetch(
        &self,
        shard: ShardIndex,
        grant: TxnId,
        order: Order,
    ) -> Result<(), TransportError> {
        let mut from = Vec::new();
        loop {
            let op = Op::LentRows(shard, grant, LentRows::File(order, from));
            let reply = self.ask(shard, op).await.ok_or(TransportError::Stopped)?;
            let now = self.inner.machine_nanos();
            let mut state = self.side(shard).lock();
            let Ok(Body::LentRows(page)) = reply.result else {
                state.give_back(&[grant], now);
                return Ok(());
            };
            from = page.next.clone();
            let taken = state.lent.as_mut().map(|it| it.core.take_file(grant, order, page));
            if matches!(taken, Some(Err(_))) {
                state.give_back(&[grant], now);
                return Ok(());
            }
            if from.is_empty() {
                return Ok(());
            }
        }
    }

    pub(crate) fn travel<'a>(
        &'a self,
        shard: ShardIndex,
        mut request: Box<Request>,
    ) -> Calling<'a> {
        self.would_borrow(&mut request);
        let id = request.head.id;
        let secrets = &self.settings.secrets;
        let watched = Watched::of(&request, secrets);
        let since = self.inner.machine_nanos();
        let asked = self.memory.sent(&request, since);
        if let Op::Hold(..) = request.op {
            // It may be another session.
            self.to_end.notify_one();
        }
        if self.settings.opens.is_some() && self.memory.travels(shard, &request, since) {
            self.side(shard).to_read.notify_one();
        }
        if id.sequence > 0 {
            let reach = Reach::of(&request.op, |name| secrets.order(name.as_bytes()));
            self.side(shard).lock().requests.sent(id, reach);
        }
        if self.settings.objects.is_some() && request.op.objects().next().is_some() {
            let sent = ((shard, id, since), (watched, asked));
            return Calling::waiting(self.travel_synced(request, sent));
        }
        match self.inner.call(shard, request) {
            Calling::Answered(mut called) => {
                if let Some(Ok(reply)) = &mut called {
                    self.answered((shard, id, since), (watched, asked), reply);
                }
                Calling::Answered(called)
            }
            Calling::Waiting(waiting) => Calling::waiting(async move {
                let mut called = waiting.await;
                if let Ok(reply) = &mut called {
                    self.answered((shard, id, since), (watched, asked), reply);
                }
                called
            }),
        }
    }

    pub(crate) fn answered(
        &self,
        (shard, id, since): (ShardIndex, RequestId, u64),
        (watched, asked): (Option<Watched>, Read),
        reply: &mut Reply,
    ) {
        let side = self.side(shard);
        let now = self.inner.machine_nanos();
        self.memory.heard(asked, id, reply, now);
        let mut state = side.lock();
        if state.heard(reply, (since, now)) {
            self.reads_end_at(shard);
            side.to_send.notify_one();
        }
        state.requests.answered(id);
        let is_its = !id.session.is_local() && id.session != SessionId(0);
        match (watched, &reply.result) {
            (Some(Watched::Counted(dir)), Ok(body)) => state.eager.counted(dir, body),
            (Some(Watched::Changed(dir, order)), Ok(body)) if is_its => {
                state.take_session(id.session);
                if state.session == id.session {
                    let when = (now, self.settings.eager_after);
                    state.eager.changed((dir, order), body, when);
                }
            }
            _ => {}
        }
        let (borrows, is_held_up) = (state.eager.has_ready(), state.borrowing.is_some());
        drop(state);
        if is_held_up {
            side.changed.notify_waiters();
        }
        if borrows {
            side.to_borrow.notify_one();
        }
        self.take_born(id, reply);
    }
}

impl<T: Transport> Transport for Borrowing<T> {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        if matches!(request.op, Op::Unlock(..) | Op::Lock(..) | Op::LockOf(..)) {
            return Calling::waiting(self.call_later(shard, request));
        }
        match self.step(shard, &request) {
            Step::Answered(reply) => Calling::answered(Ok(reply)),
            Step::Travels => {
                if let Some(reply) = self.answer_again(shard, &request) {
                    return Calling::answered(Ok(reply));
                }
                if let Some(along) = self.reads_along(&request) {
                    return Calling::waiting(self.read_along(shard, request, along));
                }
                if let Some(entry) = self.entry_here(shard, &request) {
                    return Calling::waiting(self.travel_beside(shard, request, entry));
                }
                match self.beside(shard, &request) {
                    beside if beside.is_empty() => self.travel(shard, request),
                    beside => Calling::waiting(self.travel_after(shard, request, beside)),
                }
            }
            Step::Unnoted(reply) => Calling::waiting(self.unnoted(shard, reply)),
            Step::Under(dir, under) => {
                Calling::waiting(self.travel_under(shard, request, (dir, under)))
            }
            _ => Calling::waiting(self.call_later(shard, request)),
        }
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        self.inner.sleep(nanos)
    }

    fn now_nanos(&self) -> u64 {
        self.inner.now_nanos()
    }

    fn machine_nanos(&self) -> u64 {
        self.inner.machine_nanos()
    }

    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn is_settled(&self) -> bool {
        self.begun().all(|side| side.lock().queue.is_empty()) && self.inner.is_settled()
    }

    fn settle<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(self.give_all_back())
    }

    fn remembers(&self) -> bool {
        true
    }

    fn is_remembering(&self) -> bool {
        self.memory.is_on(self.inner.machine_nanos())
    }

    fn reader(&self) -> Option<Credentials> {
        self.memory.reader(self.inner.machine_nanos())
    }

    fn may_open(
        &self,
        file: &FileRef,
        access: AccessMask,
        credentials: &Credentials,
    ) -> Option<Attr> {
        let is_judged_alike = self.settings.opens.is_some_and(|opens| access & !opens == 0);
        let now = || self.inner.machine_nanos();
        is_judged_alike.then(|| self.memory.may_open(file, (access, credentials), now())).flatten()
    }

    fn reads_end<'a>(&'a self) -> BoxFuture<'a, (u64, Vec<DirId>)> {
        Box::pin(async {
            loop {
                let ends = self.to_end.notified();
                if let Some(endings) = self.memory.take_endings() {
                    return endings;
                }
                ends.await;
            }
        })
    }

    fn reads_ended(&self, number: u64) {
        self.memory.ended(number);
        self.give_fallen_reads_back();
    }

    fn grounds(&self) -> Option<&Arc<Grounds>> {
        Some(&self.grounds)
    }

    fn afterwards(&self) {
        self.inner.afterwards();
    }
}

/// Ready when the first of two futures is.
pub(crate) async fn either(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        let is_ready = first.as_mut().poll(context).is_ready()
            || Pin::as_mut(&mut second).poll(context).is_ready();
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
