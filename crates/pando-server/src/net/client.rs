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

use super::limits::CLIENT_FRAME_MAX;
use super::say;
use super::sink::Sink;
use super::worker::Worker;
use crate::host::connection::ReplySink;

/// A frame that is not whole may hold this much while memory is short.
const SMALL_FRAME: usize = 64 << 10;
/// Requests of one connection that are run at once. Replies to the first leave while the rest is at work, so that client and
/// server work at the same time.
const BATCH_MAX: usize = 32;
/// While memory is short, it is looked again this often.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

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
    let out = Arc::new(Outbound::new(inbound.stream().clone()));
    let sink = Arc::new(Sink::new(out.clone()));
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
    let limits = &worker.limits;
    let mut share = worker.budget.share();
    let as_sink: Arc<dyn ReplySink> = sink.clone();
    let mut requests = Vec::new();
    loop {
        let is_more = match take(&mut inbound, &mut requests) {
            Ok(is_more) => is_more,
            Err(end) => return end,
        };
        if !requests.is_empty() {
            sink.took(requests.len());
            worker.host.submit(shard, &as_sink, &mut requests);
            worker.run_soon();
        }
        if is_more {
            sink.below(limits.in_flight).await;
            // The shard runs, and its replies leave.
            yield_now().await;
            continue;
        }
        sink.below(limits.in_flight).await;
        sink.out.below(limits.replies).await;
        while share.set(inbound.pending() + sink.out.waiting()) {
            if inbound.pending() > SMALL_FRAME {
                return End::Memory;
            }
            if sink.out.is_closed() {
                return Closed::End.into();
            }
            // What others hold shrinks also without their giving it back.
            let _ = timeout(LOOK_AGAIN, share.freed()).await;
        }
        if sink.out.waiting() > 0 && is_drained(&inbound, &sink.out).await {
            // Given back even if nothing more comes.
            share.set(inbound.pending());
        }
        if let Err(closed) = worker.fill(&mut inbound).await {
            return closed.into();
        }
        if sink.out.is_closed() {
            return Closed::End.into();
        }
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

/// Whole requests at hand, up to a batch; whether there may be more.
fn take(inbound: &mut Inbound, requests: &mut Vec<(u64, Request)>) -> Result<bool, End> {
    while requests.len() < BATCH_MAX {
        match inbound.next_message()? {
            Some((stream, Message::Request(request))) => requests.push((stream.0, request)),
            Some(_) => return Err(End::OutOfTurn),
            None => return Ok(false),
        }
    }
    Ok(true)
}
