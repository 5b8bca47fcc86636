//! The address at which this process tells its metrics. Anybody who reaches it may ask, so each
//! connection has limits: of time, of bytes, and of those that are open together.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener as Bound};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::family::Families;
use super::http::{HEAD_MAX, Judged, Refusal, answer, judge};
use crate::failure::{FAILED, Failure, IN_USE};

/// Connections that are open together. One more ends the oldest, so whoever keeps connections open
/// keeps nobody out.
const CONNECTIONS: usize = 16;
/// A request is complete by then.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// Shards have let their counts be read by then, and the client has taken the answer by then.
const ANSWER_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// After an answer so many bytes are still read, and for so long. A connection that is closed
/// before its bytes are read loses the answer on its way.
const REST_MAX: usize = 64 << 10;
const REST_WITHIN: Duration = Duration::from_secs(1);

#[derive(Args, Debug, Clone)]
pub struct MetricsArgs {
    /// Tell metrics to Prometheus at http://ADDRESS/metrics: HOST:PORT, or PORT of 127.0.0.1. Not
    /// encrypted, and anybody who reaches it may read; no names of files are told [default: none]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    metrics: Option<String>,
}

fn parse_address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let is_bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    match (port.parse::<u16>(), host) {
        (Ok(port), "") => Ok(format!("127.0.0.1:{port}")),
        (Ok(_), _) if !is_bare => Ok(text.to_owned()),
        _ => Err("write HOST:PORT, [IPv6]:PORT, or PORT of 127.0.0.1".to_owned()),
    }
}

/// Words for a greeting: where metrics are told, if they are.
pub fn told_at(address: Option<SocketAddr>) -> String {
    address.map(|address| format!(", metrics at http://{address}/metrics")).unwrap_or_default()
}

/// Adds this process's metrics. `None`: the process is ending.
pub type Tell = Box<dyn Fn(&mut Families) -> Option<()> + Send>;

/// An address at which connections can be made, and wait.
pub struct Door {
    bound: Bound,
    address: SocketAddr,
}

impl Door {
    /// Takes the address, if there is one. Fails if it is in use.
    pub fn open(args: &MetricsArgs) -> Result<Option<Self>, Failure> {
        let Some(wanted) = &args.metrics else { return Ok(None) };
        let open = || {
            let bound = Bound::bind(wanted)?;
            bound.set_nonblocking(true)?;
            let address = bound.local_addr()?;
            Ok(Some(Self { bound, address }))
        };
        open().map_err(|error: io::Error| {
            let is_used = error.kind() == io::ErrorKind::AddrInUse;
            let code = if is_used { IN_USE } else { FAILED };
            Failure::new(code, format!("cannot tell metrics at {wanted}: {error}"))
        })
    }

    /// Serves whoever connects, until the process ends. Returns the address.
    pub fn serve(self, tell: Tell) -> Result<SocketAddr, Failure> {
        let Self { bound, address } = self;
        let begin = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let listener = {
                let _context = runtime.enter();
                TcpListener::from_std(bound)?
            };
            let serving = move || runtime.block_on(receive(listener, Arc::new(Mutex::new(tell))));
            std::thread::Builder::new().name("pando-metrics".to_owned()).spawn(serving)
        };
        begin().map_err(|error: io::Error| {
            Failure::plain(format!("cannot tell metrics at {address}: {error}"))
        })?;
        Ok(address)
    }
}

/// Metrics are made one after the other: a shard that does not let its counts be read holds one
/// thread, however many ask.
type OneByOne = Arc<Mutex<Tell>>;

async fn receive(listener: TcpListener, tell: OneByOne) {
    let mut open = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // There are no files left. To try again at once would only take the processor.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        open.retain(|task: &tokio::task::AbortHandle| !task.is_finished());
        if open.len() >= CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(converse(stream, tell.clone())).abort_handle());
    }
}

async fn converse(mut stream: TcpStream, tell: OneByOne) {
    let metrics = match timeout(REQUEST_WITHIN, request(&mut stream)).await {
        Ok(Ok(Judged::Metrics)) => metrics(tell).await,
        Ok(Ok(Judged::Refused(refusal))) => Err(refusal),
        // Whoever closes a connection before the request is complete hears no answer.
        Ok(Ok(Judged::More) | Err(_)) => return,
        Err(_) => Err(Refusal::TooSlow),
    };
    let bytes = answer(metrics);
    let told = async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    };
    if let Ok(Ok(())) = timeout(ANSWER_WITHIN, told).await {
        let mut rest = stream.take(REST_MAX as u64);
        let _ = timeout(REST_WITHIN, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    }
}

/// Reads a request. `More`: the connection ended before.
async fn request(stream: &mut TcpStream) -> io::Result<Judged> {
    let mut head = Vec::with_capacity(HEAD_MAX);
    loop {
        let mut limited = (&mut *stream).take((HEAD_MAX - head.len()) as u64);
        let is_over = limited.read_buf(&mut head).await? == 0;
        let judged = judge(&head);
        if judged != Judged::More || is_over {
            return Ok(judged);
        }
    }
}

async fn metrics(tell: OneByOne) -> Result<String, Refusal> {
    let made = async {
        let tell = tell.lock_owned().await;
        let work = move || {
            let mut families = Families::default();
            tell(&mut families)?;
            families.encode().ok()
        };
        tokio::task::spawn_blocking(work).await.ok()?
    };
    let made = timeout(ANSWER_WITHIN, made).await;
    made.ok().flatten().ok_or(Refusal::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc::channel;

    fn serve(tell: Tell) -> SocketAddr {
        let args = MetricsArgs { metrics: Some("127.0.0.1:0".to_owned()) };
        Door::open(&args).unwrap().unwrap().serve(tell).unwrap()
    }

    /// The first words of an answer.
    fn status(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer["HTTP/1.1 ".len()..][..3].to_owned()
    }

    #[test]
    fn a_process_that_ends_tells_no_metrics() {
        let address = serve(Box::new(|_| None));
        assert_eq!(status(address, "/metrics"), "503");
    }

    #[test]
    fn a_shard_that_is_held_keeps_no_other_question_waiting() {
        let (release, held) = channel::<()>();
        let address = serve(Box::new(move |_| held.recv().ok()));
        for _ in 0..2 {
            assert_eq!(status(address, "/metrics"), "503");
            assert_eq!(status(address, "/"), "404");
        }
        // The first question still waits, and takes the first word.
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert_eq!(status(address, "/metrics"), "200");
    }

    #[test]
    fn an_address_without_a_host_is_of_loopback() {
        for (text, expected) in [
            ("9400", Some("127.0.0.1:9400")),
            (":9400", Some("127.0.0.1:9400")),
            ("0.0.0.0:0", Some("0.0.0.0:0")),
            ("[::1]:9400", Some("[::1]:9400")),
            ("a.example:9400", Some("a.example:9400")),
            ("::1", None),
            ("a.example", None),
            ("127.0.0.1:99999", None),
        ] {
            assert_eq!(parse_address(text).ok().as_deref(), expected, "{text}");
        }
    }
}
