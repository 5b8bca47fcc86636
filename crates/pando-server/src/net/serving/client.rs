//! One client's connection to one shard.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pando_net::{Closed, Inbound, Outbound, Who};
use pando_types::op::{Op, Request};
use pando_types::reply::{Refusal, Reply};
use pando_types::{Lsn, ShardIndex};
use pando_wire::Message;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::calls::connection::{Asked, ReplySink};
use crate::net::bounds::budget::{Budget, Share};
use crate::net::bounds::limits::CLIENT_FRAME_MAX;
use crate::net::bounds::murmur::say_end;
use crate::net::bounds::weight;
use crate::net::keys::guests::Place;
use crate::net::keys::roles::pass;
use crate::net::serving::sink::Sink;
use crate::net::serving::worker::Worker;

/// Requests of one connection that are run at once. Replies to the first batch leave while the next
/// one runs, so client and server work at the same time.
const BATCH_MAX: usize = 32;
/// How often a connection looks again while memory is short.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Memory of a request besides the bytes of its frame, which hold its names and values, and besides
/// its lists.
const REQUEST_BYTES: usize = size_of::<Request>();

/// Why a connection ends.
enum End {
    Closed(Closed),
    OutOfTurn,
    /// The client takes none of its replies, and too many wait.
    Replies,
    /// The client holds a long unfinished frame while memory is short.
    Memory,
}

impl From<Closed> for End {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

/// Serves the connection until it ends.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    shard: ShardIndex,
    mut inbound: Inbound,
    who: Who,
    from: String,
    place: &Place,
) {
    let out = Arc::new(Outbound::counted(&mut inbound, worker.writes.clone()));
    let budget = worker.budgets.clients.clone();
    let sink = Arc::new(Sink::new(out.clone(), who.key(), budget, worker.limits.replies_cut));
    let writing = worker.watch(out.clone(), from.clone());
    place.speak(&out);
    let mut end = read(&worker, shard, inbound, &who, &sink).await;
    if sink.is_cut() {
        end = End::Replies;
    }
    out.close();
    drop(writing);
    worker.host.note(shard, |counters| match &end {
        End::OutOfTurn
        | End::Closed(Closed::Frame(_) | Closed::Record(_) | Closed::Alert(_) | Closed::Cut) => {
            Some(&counters.bad_frames)
        }
        End::Replies | End::Memory => Some(&counters.cut_off),
        End::Closed(Closed::End | Closed::Io(_)) => None,
    });
    match end {
        End::Replies => worker.murmur.say(&format!(
            "closed the connection from {from} to shard {shard}: more than {} bytes of replies wait for it",
            worker.limits.replies_cut
        )),
        End::Closed(closed) => {
            say_end(&worker.murmur, &format!("the connection from {from} to shard {shard}"), &closed)
        }
        End::OutOfTurn => {
            worker.murmur.say(&format!(
                "closed the connection from {from} to shard {shard}: a client sends requests only"
            ));
        }
        End::Memory => {
            worker.murmur.say(&format!(
                "closed the connection from {from} to shard {shard}: memory for connections is used up, and it \
                 holds a long, incomplete frame"
            ));
        }
    }
}

async fn read(
    worker: &Worker,
    shard: ShardIndex,
    mut inbound: Inbound,
    who: &Who,
    sink: &Arc<Sink>,
) -> End {
    inbound.limit(CLIENT_FRAME_MAX);
    let (limits, budget) = (&worker.limits, &worker.budgets.clients);
    let mut share = budget.share();
    let as_sink: Arc<dyn ReplySink> = sink.clone();
    let mut requests = Vec::new();
    loop {
        // There is room: the loop has waited for it, or no request waits yet.
        let room = limits.in_flight.saturating_sub(sink.in_flight()).max(1) as usize;
        let bytes = limits.replies.saturating_sub(sink.replies());
        let is_more = match take(&mut inbound, &mut requests, room.min(BATCH_MAX), bytes) {
            Ok(is_more) => is_more,
            Err(end) => return end,
        };
        if !requests.is_empty() {
            let bytes = requests.iter().map(|(asked, _)| asked.bytes as usize).sum();
            let replies = requests.iter().map(|(asked, _)| asked.reply as usize).sum();
            sink.took(requests.len(), bytes, replies);
            refuse(worker, shard, who, sink, &mut requests);
            worker.host.submit(shard, &as_sink, &mut requests);
            worker.run_soon();
        }
        if is_more {
            // The shard runs meanwhile, and its replies leave.
            yield_now().await;
        }
        sink.below(limits.in_flight).await;
        sink.replies_below(limits.replies).await;
        if let Err(end) = await_memory(budget, &mut share, &inbound, sink, is_more).await {
            return end;
        }
        if is_more {
            continue;
        }
        if let Err(closed) = fill(worker, &mut inbound, sink, &mut share).await {
            return closed.into();
        }
        if sink.out.is_closed() {
            return Closed::End.into();
        }
    }
}

/// Returns once the connection may go on: there is memory, or the connection holds no more than its
/// part.
async fn await_memory(
    budget: &Budget,
    share: &mut Share,
    inbound: &Inbound,
    sink: &Sink,
    is_more: bool,
) -> Result<(), End> {
    loop {
        let (sent, untaken) = (inbound.pending(), sink.out.waiting());
        share.set(sent + untaken);
        let others = untaken + sink.held();
        if !budget.is_exceeded() || sent + others <= budget.part() {
            return Ok(());
        }
        if others == 0 {
            // The connection holds only what it has sent. Its whole requests leave memory when they
            // run. An unfinished frame would stay.
            return if is_more { Ok(()) } else { Err(End::Memory) };
        }
        if sink.out.is_closed() {
            return Err(Closed::End.into());
        }
        // Memory may also become free without a notification.
        let _ = timeout(LOOK_AGAIN, is_relieved(share, sink, untaken)).await;
    }
}

/// Returns when memory was freed, when a request of this connection is answered, or when the last
/// of its `untaken` bytes is taken.
async fn is_relieved(share: &Share, sink: &Sink, untaken: usize) {
    let (is_untaken, in_flight) = (untaken > 0, sink.in_flight());
    let (mut freed, mut drained) = (pin!(share.freed()), pin!(sink.out.below(1)));
    let mut answered = pin!(sink.below(in_flight));
    poll_fn(|context| {
        if freed.as_mut().poll(context).is_ready()
            || (is_untaken && drained.as_mut().poll(context).is_ready())
        {
            return Poll::Ready(());
        }
        answered.as_mut().poll(context)
    })
    .await;
}

/// Waits for more bytes. Meanwhile gives memory of replies back once they are taken, also if no
/// more bytes come.
async fn fill(
    worker: &Worker,
    inbound: &mut Inbound,
    sink: &Sink,
    share: &mut Share,
) -> Result<(), Closed> {
    let (sent, budget) = (inbound.pending(), &worker.budgets.clients);
    let mut filling = pin!(worker.fill(inbound, budget));
    let mut drained = pin!(sink.out.below(1));
    let mut is_drained = false;
    poll_fn(|context| {
        if !is_drained && drained.as_mut().poll(context).is_ready() {
            is_drained = true;
            share.set(sent);
        }
        filling.as_mut().poll(context)
    })
    .await
}

/// Answers requests that the key does not allow, and restricts others as the key says.
fn refuse(
    worker: &Worker,
    shard: ShardIndex,
    who: &Who,
    sink: &Sink,
    requests: &mut Vec<(Asked, Request)>,
) {
    let mut must_flush = false;
    requests.retain_mut(|(asked, request)| match pass(who, request) {
        Ok(()) => true,
        Err(errno) => {
            let reply = Reply {
                id: request.head.id,
                trace: request.head.trace,
                shard,
                epoch: worker.host.epoch(shard).unwrap_or_default(),
                durable: Lsn(0),
                seen: Lsn(0),
                version: 0,
                clock: 0,
                result: Err(Refusal::Errno(errno)),
                news: None,
                amendment: None,
            };
            must_flush |= sink.reply(*asked, Some(&reply));
            false
        }
    });
    if must_flush {
        sink.flush();
    }
}

/// Takes whole requests that are at hand: `most` at most, and no more once their replies may take
/// `bytes_of_replies`. Answers whether there may be more.
fn take(
    inbound: &mut Inbound,
    requests: &mut Vec<(Asked, Request)>,
    most: usize,
    bytes_of_replies: usize,
) -> Result<bool, End> {
    let mut replies = 0;
    while requests.len() < most && (replies < bytes_of_replies || requests.is_empty()) {
        let before = inbound.pending();
        match inbound.next_message()? {
            Some((stream, Message::Request(mut request))) => {
                if request.op == Op::OpenLocalSession {
                    // A client of another process can outlive this one, so it gets a session that
                    // is not local.
                    request.op = Op::OpenSession;
                }
                if matches!(request.op, Op::Hold(session, _) if session.is_local()) {
                    // A local session's client is in this process.
                    return Err(End::OutOfTurn);
                }
                let frame = before - inbound.pending();
                let bytes = frame + REQUEST_BYTES + inbound.heap();
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                let reply = weight::of_reply(&request.op);
                replies += reply;
                let reply = u32::try_from(reply).unwrap_or(u32::MAX);
                requests.push((Asked { stream: stream.0, bytes, reply }, request));
            }
            Some(_) => return Err(End::OutOfTurn),
            None => return Ok(false),
        }
    }
    Ok(true)
}
