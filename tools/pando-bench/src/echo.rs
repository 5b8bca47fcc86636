//! Measures the floor of all communication over sockets: a server sends frames back as they are.
//!
//! ```text
//!   client thread                                      server thread
//!     connection 0 ─ window of frames ──► write ──►      read what is there
//!     connection 1 ─ …                                   write it back at once
//!        read what is there ◄── new frame for each ◄──
//! ```
//!
//! A frame is a length of 4 bytes and a payload of 64 bytes, which begins with the frame's number.
//! The client checks each frame that returns. Client and server are one thread each, with its own
//! runtime (tokio, `current_thread`). That is what a client and a server of Pando are when they
//! share a machine. One `write` carries all frames that are due, and one `read` takes all that have
//! arrived.

mod client;
mod connect;
mod frame;
mod server;

use std::io;
use std::time::Duration;

use serde::Serialize;

use crate::report::rounded;
use crate::{Percentiles, Watch};

/// The kind of socket that carries the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Socket {
    /// TCP on the loopback interface, without delay.
    Tcp,
    /// A Unix socket.
    Unix,
}

/// Parameters of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Load {
    /// The kind of socket.
    pub socket: Socket,
    /// Frames in flight at any time, on all connections together. At least one for each connection.
    pub outstanding: u32,
    /// Number of connections; above 0.
    pub connections: u32,
}

impl Load {
    /// The usual measurements: a single frame, some, and many in flight, over each kind of socket.
    pub const USUAL: [Self; 6] = [
        Self { socket: Socket::Tcp, outstanding: 1, connections: 1 },
        Self { socket: Socket::Tcp, outstanding: 64, connections: 8 },
        Self { socket: Socket::Tcp, outstanding: 512, connections: 8 },
        Self { socket: Socket::Unix, outstanding: 1, connections: 1 },
        Self { socket: Socket::Unix, outstanding: 64, connections: 8 },
        Self { socket: Socket::Unix, outstanding: 512, connections: 8 },
    ];
}

/// The result of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EchoReport {
    /// Its parameters.
    #[serde(flatten)]
    pub load: Load,
    /// Number of frames that returned.
    pub frames: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Frames a second.
    pub frames_per_second: f64,
    /// Microseconds from a frame's `write` to the end of its `read`.
    pub latency_micros: Percentiles,
}

/// Sends frames to and fro for the given time.
pub fn run(load: Load, time: Duration, watch: &dyn Watch) -> io::Result<EchoReport> {
    check(load)?;
    let (ours, theirs) = connect::connect(load.socket, load.connections)?;
    exchange(ours, theirs, load, time, watch)
}

fn check(load: Load) -> io::Result<()> {
    if load.connections > 0 && load.outstanding >= load.connections {
        return Ok(());
    }
    let what = "every connection needs a frame to send: more outstanding, or fewer connections";
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

fn exchange(
    ours: connect::Streams,
    theirs: connect::Streams,
    load: Load,
    time: Duration,
    watch: &dyn Watch,
) -> io::Result<EchoReport> {
    let server = server::start(theirs)?;
    let outcome =
        runtime().and_then(|runtime| runtime.block_on(client::run(ours, load, time, watch)));
    // The client's ends are closed by now, so the server ends, too.
    let served =
        server.join().unwrap_or_else(|_| Err(io::Error::other("the echo server panicked")));
    let client::Outcome { frames, seconds, latencies } = outcome?;
    served?;
    Ok(EchoReport {
        load,
        frames,
        seconds: rounded(seconds, 1e6),
        frames_per_second: rounded(frames as f64 / seconds.max(1e-9), 10.0),
        latency_micros: latencies.percentiles(),
    })
}

/// Measures over TCP through a relay ([`crate::relay`]) that adds `round_trip` to each round trip.
/// The rest of the latency is the machine's own.
pub fn relayed(
    load: Load,
    round_trip: Duration,
    time: Duration,
    watch: &dyn Watch,
) -> io::Result<EchoReport> {
    let load = Load { socket: Socket::Tcp, ..load };
    check(load)?;
    let (ours, theirs, relay) = connect::connect_through_relay(load.connections, round_trip)?;
    let report = exchange(ours, theirs, load, time, watch);
    drop(relay);
    report
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
