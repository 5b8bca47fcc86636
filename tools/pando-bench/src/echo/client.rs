//! The side that sends frames and counts those that return.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::Load;
use super::connect::Streams;
use super::frame::{self, FRAME, Inbox};
use crate::{Latencies, Watch};

/// Frames between two checks for an interrupt.
const LOOK: u64 = 1 << 14;

pub(super) struct Outcome {
    pub(super) frames: u64,
    pub(super) seconds: f64,
    pub(super) latencies: Latencies,
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Sends frames over `streams` for the given time. It must be polled in a runtime of its own.
pub(super) async fn run(
    streams: Streams,
    load: Load,
    time: Duration,
    watch: &dyn Watch,
) -> io::Result<Outcome> {
    match streams {
        Streams::Tcp(streams) => {
            let streams = streams.into_iter().map(TcpStream::from_std).collect::<Result<_, _>>()?;
            drive(streams, load, time, watch).await
        }
        Streams::Unix(streams) => {
            let streams =
                streams.into_iter().map(UnixStream::from_std).collect::<Result<_, _>>()?;
            drive(streams, load, time, watch).await
        }
    }
}

async fn drive<S: Stream>(
    streams: Vec<S>,
    load: Load,
    time: Duration,
    watch: &dyn Watch,
) -> io::Result<Outcome> {
    let begun = Instant::now();
    let window = |index: u32| {
        let (each, rest) =
            (load.outstanding / load.connections, load.outstanding % load.connections);
        each + u32::from(index < rest)
    };
    let all = streams
        .into_iter()
        .zip(0..)
        .map(|(stream, index)| exchange(stream, window(index), begun + time, watch));
    let mut latencies = Latencies::default();
    for each in try_join_all(all).await? {
        latencies.add(&each);
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Outcome { frames: latencies.count(), seconds, latencies })
}

/// Keeps `window` frames in flight on one connection until `end`.
async fn exchange(
    mut stream: impl Stream,
    window: u32,
    end: Instant,
    watch: &dyn Watch,
) -> io::Result<Latencies> {
    let (mut inbox, mut out) = (Inbox::new(), Vec::with_capacity(frame::BUFFER));
    let mut latencies = Latencies::default();
    // Time and number of frames of each write, oldest first. Frames return in the order of sending.
    let mut written = VecDeque::from([(Instant::now(), u64::from(window))]);
    let (mut sent, mut returned) = (0, 0);
    let mut send = |out: &mut Vec<u8>, count: u64| {
        (sent..sent + count).for_each(|number| frame::put(out, number));
        sent += count;
    };
    send(&mut out, u64::from(window));
    let (mut is_over, mut look_at) = (false, LOOK);
    loop {
        stream.write_all(&out).await?;
        out.clear();
        let len = stream.read(inbox.room()).await?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = Instant::now();
        let whole = inbox.read(len);
        let arrived = (whole.len() / FRAME) as u64;
        for returning in inbox.get(whole.clone()).chunks(FRAME) {
            if frame::number(returning)? != returned {
                return Err(io::Error::other("frames came back in another order"));
            }
            returned += 1;
            record(&mut latencies, &mut written, now);
        }
        inbox.used(whole);
        if returned >= look_at {
            look_at += LOOK;
            is_over |= watch.is_interrupted();
        }
        is_over |= now >= end;
        if is_over && written.is_empty() {
            return Ok(latencies);
        }
        if !is_over && arrived > 0 {
            send(&mut out, arrived);
            written.push_back((now, arrived));
        }
    }
}

fn record(latencies: &mut Latencies, written: &mut VecDeque<(Instant, u64)>, now: Instant) {
    if let Some((at, left)) = written.front_mut() {
        latencies.record((now - *at).as_nanos() as u64);
        *left -= 1;
        if *left == 0 {
            written.pop_front();
        }
    }
}
