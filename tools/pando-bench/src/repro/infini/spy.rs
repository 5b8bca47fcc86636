//! Notes when requests leave. That divides a call into resolving the path and the operation itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pando_client::{BoxFuture, Calling, Transport};
use pando_types::ShardIndex;
use pando_types::op::{Op, Request};
use serde::Serialize;

use crate::BenchError;
use crate::repro::stats::median;

/// A transport that notes when requests leave.
pub(super) struct Spy {
    inner: Arc<dyn Transport>,
    sent: Mutex<Vec<Sent>>,
}

struct Sent {
    at: Instant,
    /// Whether it changes something, and so is the operation itself.
    changes: bool,
}

impl Spy {
    pub(super) fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner, sent: Mutex::default() }
    }

    fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Transport for Spy {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        // Leases are renewed at any load, so renewals do not count.
        if !matches!(request.op, Op::Renew(_)) {
            let changes = matches!(
                request.op,
                Op::Create { .. } | Op::Mkdir(..) | Op::Rename { .. } | Op::SetAttr(..)
            );
            let sent = Sent { at: Instant::now(), changes };
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
        }
        self.inner.call(shard, request)
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        self.inner.sleep(nanos)
    }

    fn now_nanos(&self) -> u64 {
        self.inner.now_nanos()
    }
}

/// The times of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Once {
    /// Microseconds from its start until the operation's request left. That is the first request
    /// that changes something, or else the last request.
    pub(super) resolution: f64,
    /// Microseconds of the whole call.
    pub(super) total: f64,
    /// Number of requests sent.
    pub(super) requests: u64,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
}

/// The times of many calls of one kind: medians in microseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Timing {
    /// Resolving the path: until the operation's request leaves.
    pub resolution: f64,
    /// The rest of the call.
    pub processing: f64,
    /// The whole call.
    pub total: f64,
    /// Mean number of requests of a call.
    pub requests: f64,
}

impl Spy {
    /// Makes one call.
    pub(super) async fn once(
        &self,
        call: impl Future<Output = Result<(), BenchError>>,
    ) -> Result<Once, BenchError> {
        drop(self.take());
        let begun = Instant::now();
        call.await?;
        let ended = Instant::now();
        let sent = self.take();
        let doing = sent.iter().find(|sent| sent.changes).or(sent.last());
        let micros = |from: Instant, to: Instant| (to - from).as_nanos() as f64 / 1e3;
        Ok(Once {
            resolution: doing.map_or(0.0, |doing| micros(begun, doing.at)),
            total: micros(begun, ended),
            requests: sent.len() as u64,
            begun,
            ended,
        })
    }

    /// Makes `count` calls, one after another.
    pub(super) async fn often(
        &self,
        count: u32,
        mut call: impl AsyncFnMut(u32) -> Result<(), BenchError>,
    ) -> Result<Timing, BenchError> {
        let mut all = Vec::new();
        for nth in 0..count {
            all.push(self.once(call(nth)).await?);
        }
        Ok(summary(&all))
    }
}

fn summary(all: &[Once]) -> Timing {
    let of = |what: fn(&Once) -> f64| median(all.iter().map(what).collect());
    let requests: u64 = all.iter().map(|once| once.requests).sum();
    Timing {
        resolution: of(|once| once.resolution),
        processing: of(|once| once.total - once.resolution),
        total: of(|once| once.total),
        requests: requests as f64 / all.len().max(1) as f64,
    }
}
