//! The beginning of a connection, and records of TLS after it.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

use pando_net::{Accepted, Origin, Reception, Stream, accept};
use pando_types::Epoch;
use pando_wire::Welcome;
use tokio::runtime::{Builder, Runtime};

use crate::frames;

/// Id of the volume that the greetings name.
pub const VOLUME: [u8; 16] = [7; 16];
/// Most bytes of an input. A socket holds this much before its other side reads.
const SOCKET: usize = 100 << 10;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_all().build().expect("a runtime for one thread")
});

/// Lets a server read a greeting over a Unix socket. If the first byte is even, checksums of frames
/// are corrected.
pub fn hello(input: &[u8]) {
    let Some((&how, bytes)) = input.split_first() else { return };
    let mut bytes = bytes[..bytes.len().min(SOCKET)].to_vec();
    if how & 1 == 0 {
        frames::seal(&mut bytes);
    }
    let (here, mut there) = UnixStream::pair().expect("two sockets");
    there.write_all(&bytes).expect("it fits");
    there.shutdown(Shutdown::Write).expect("that was all");
    here.set_nonblocking(true).expect("a socket may not block");
    let welcome = || Welcome { epoch: Epoch(1), in_flight: 1, hosts: vec![], revoked: vec![] };
    let accepted = RUNTIME.block_on(async {
        let stream = Stream::Unix(tokio::net::UnixStream::from_std(here)?);
        let accepted = Accepted { stream, from: "the fuzzer".to_owned(), origin: Origin::Owner };
        let reception = Reception { volume: VOLUME, keys: None };
        Ok::<_, std::io::Error>(accept(accepted, reception, |_, _| Ok((welcome(), ()))).await)
    });
    if let Err(error) = accepted.expect("a socket of the runtime") {
        assert!(!error.to_string().is_empty(), "each refusal has its words");
    }
}

/// Runs [`pando_net::fuzzing::records`].
pub fn tls(input: &[u8]) {
    pando_net::fuzzing::records(input);
}
