//! Measures the round trip of a request to a server, over the connection that a mount uses.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pando_bench::Watch;
use pando_types::op::{Head, Op, Request};
use pando_types::{Credentials, ShardIndex};

use super::requests::unexpected;
use crate::output::failure::Failure;
use crate::volume::named::Named;
use crate::volume::net;
use crate::volume::servers::{Serve, Server, Volume};

/// Mean microseconds of a round trip of the smallest request, one at a time. It begins with the
/// call, in a thread like those that read from the kernel. It ends when the waiting thread is
/// woken. Codec and shard are included.
pub fn round_trip(serve: Serve, time: Duration, watch: &dyn Watch) -> Result<f64, Failure> {
    let volume = Volume { serve, shards: 1, durability: "os", threads: None, is_alone: false };
    let (server, target) = Server::served(&volume)?;
    let named = Named::parse(&target)?;
    let net = net::connect(&named, Some(&server.key()))?;
    let request = || {
        let (credentials, op) = (Credentials::ROOT, Op::StatFs(ShardIndex(0)));
        Box::new(Request { head: Head::default(), credentials, op, trail: None })
    };
    let told = Arc::new(Told::default());
    let waker = Waker::from(told.clone());
    // The first call opens the connection, so it does not count.
    let (mut is_first, mut begun) = (true, Instant::now());
    let (mut calls, mut nanos) = (0_u32, 0);
    while calls == 0 || begun.elapsed() < time {
        if watch.is_interrupted() {
            return Err(Failure::plain("interrupted"));
        }
        told.is_told.store(false, Ordering::Relaxed);
        let mut call = pin!(net.transport.call(ShardIndex(0), request()));
        let sent = Instant::now();
        let mut answer = call.as_mut().poll(&mut Context::from_waker(&waker));
        while answer.is_pending() {
            // Waits as the mount's readers wait for the kernel: awake, but giving the CPU to
            // threads that have work.
            while !told.is_told.swap(false, Ordering::Acquire) {
                if watch.is_interrupted() {
                    return Err(Failure::plain("interrupted"));
                }
                std::thread::yield_now();
            }
            answer = call.as_mut().poll(&mut Context::from_waker(&waker));
        }
        let took = sent.elapsed();
        match answer {
            Poll::Ready(Ok(reply)) if reply.result.is_ok() => {}
            other => return Err(unexpected(&other)),
        }
        if std::mem::take(&mut is_first) {
            begun = Instant::now();
        } else {
            calls += 1;
            nanos += took.as_nanos();
        }
    }
    Ok(nanos as f64 / 1e3 / f64::from(calls))
}

#[derive(Default)]
struct Told {
    is_told: AtomicBool,
}

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.is_told.store(true, Ordering::Release);
    }
}
