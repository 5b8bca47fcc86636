//! One client's connection to one shard.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pando_net::{Closed, Inbound, Outbound};
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_wire::Message;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::budget::{Budget, Share};
use super::limits::CLIENT_FRAME_MAX;
use super::say;
use super::sink::Sink;
use super::worker::Worker;
use crate::host::connection::{Asked, ReplySink};

/// Requests of one connection that are run at once. Replies to the first leave while the rest is at work, so that client and
/// server work at the same time.
const BATCH_MAX: usize = 32;
/// While memory is short, it is looked again this often.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a request takes besides its frame's bytes.
const REQUEST_BYTES: usize = size_of::<Request>();

/// Why the server ends a connection by itself.
enum End {
    Closed(Closed),
    OutOfTurn,
    /// It holds a long frame while memory is short.
    Memory,
}

impl From<Closed> for End {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

/// Serves it until it ends.
pub(super) async fn serve(worker: Rc<Worker>, shard: ShardIndex, inbound: Inbound, from: String) {
    let out = Arc::new(Outbound::counted(inbound.stream().clone(), worker.writes.clone()));
    let sink = Arc::new(Sink::new(out.clone(), worker.budgets.clients.clone()));
    let writing = worker.watch(out.clone(), from.clone());
    let end = read(&worker, shard, inbound, &sink).await;
    out.close();
    drop(writing);
    match end {
        End::Closed(Closed::End | Closed::Cut | Closed::Io(_)) => {}
        End::Closed(Closed::Frame(error)) => {
            say(&format!("shard {shard}: closed the connection from {from}: it sent {error}"));
        }
        End::OutOfTurn => {
            say(&format!(
                "shard {shard}: closed the connection from {from}: a client sends requests only"
            ));
        }
        End::Memory => {
            say(&format!(
                "shard {shard}: closed the connection from {from}: memory for connections is used up, and it \
                 holds a frame that is long and not whole"
            ));
        }
    }
}

async fn read(worker: &Worker, shard: ShardIndex, mut inbound: Inbound, sink: &Arc<Sink>) -> End {
    inbound.limit(CLIENT_FRAME_MAX);
    let (limits, budget) = (&worker.limits, &worker.budgets.clients);
    let mut share = budget.share();
    let as_sink: Arc<dyn ReplySink> = sink.clone();
    let mut requests = Vec::new();
    loop {
        // Below the limit: it was waited for, or nothing is under way yet.
        let room = limits.in_flight.saturating_sub(sink.in_flight()).max(1) as usize;
        let is_more = match take(&mut inbound, &mut requests, room.min(BATCH_MAX)) {
            Ok(is_more) => is_more,
            Err(end) => return end,
        };
        if !requests.is_empty() {
            let bytes = requests.iter().map(|(asked, _)| asked.bytes as usize).sum();
            sink.took(requests.len(), bytes);
            worker.host.submit(shard, &as_sink, &mut requests);
            worker.run_soon();
        }
        if is_more {
            // The shard runs, and its replies leave.
            yield_now().await;
        }
        sink.below(limits.in_flight).await;
        sink.out.below(limits.replies).await;
        if let Err(end) = await_memory(budget, &mut share, &inbound, sink, is_more).await {
            return end;
        }
        if is_more {
            continue;
        }
        if sink.out.waiting() > 0 && is_drained(&inbound, &sink.out).await {
            // Given back even if nothing more comes.
            share.set(inbound.pending());
        }
        if let Err(closed) = worker.fill(&mut inbound, budget).await {
            return closed.into();
        }
        if sink.out.is_closed() {
            return Closed::End.into();
        }
    }
}

/// Returns once the connection may go on: there is memory, or it holds no more than its part.
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
            // What it holds is what it has sent: of that, whole requests go when they are run. What is not whole stays.
            return if is_more { Ok(()) } else { Err(End::Memory) };
        }
        if sink.out.is_closed() {
            return Err(Closed::End.into());
        }
        // What others hold shrinks also without their giving it back.
        let _ = timeout(LOOK_AGAIN, share.freed()).await;
    }
}

/// Returns when there is something to read, or nothing left to write: whether the latter.
async fn is_drained(inbound: &Inbound, out: &Outbound) -> bool {
    let (mut readable, mut drained) = (pin!(inbound.stream().readable()), pin!(out.below(1)));
    poll_fn(|context| {
        if drained.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        readable.as_mut().poll(context).map(|_| false)
    })
    .await
}

/// Whole requests at hand, so many at most; whether there may be more.
fn take(
    inbound: &mut Inbound,
    requests: &mut Vec<(Asked, Request)>,
    most: usize,
) -> Result<bool, End> {
    while requests.len() < most {
        let before = inbound.pending();
        match inbound.next_message()? {
            Some((stream, Message::Request(request))) => {
                let frame = before - inbound.pending();
                let bytes = u32::try_from(frame + REQUEST_BYTES).unwrap_or(u32::MAX);
                requests.push((Asked { stream: stream.0, bytes }, request));
            }
            Some(_) => return Err(End::OutOfTurn),
            None => return Ok(false),
        }
    }
    Ok(true)
}
