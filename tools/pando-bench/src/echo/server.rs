//! The side that sends frames back.

use std::io;
use std::thread::JoinHandle;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;

use super::connect::Streams;
use super::frame::Inbox;
use super::runtime;

/// Serves the connections in a thread of its own, until the client has closed all of them.
pub(super) fn start(streams: Streams) -> io::Result<JoinHandle<io::Result<()>>> {
    std::thread::Builder::new().name("echo-server".to_owned()).spawn(move || {
        runtime()?.block_on(async {
            let mut connections = JoinSet::new();
            match streams {
                Streams::Tcp(streams) => {
                    for stream in streams {
                        connections.spawn(echo(tokio::net::TcpStream::from_std(stream)?));
                    }
                }
                Streams::Unix(streams) => {
                    for stream in streams {
                        connections.spawn(echo(tokio::net::UnixStream::from_std(stream)?));
                    }
                }
            }
            while let Some(ended) = connections.join_next().await {
                ended.map_err(io::Error::other)??;
            }
            Ok(())
        })
    })
}

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut inbox = Inbox::new();
    loop {
        match stream.read(inbox.room()).await? {
            0 => return Ok(()),
            len => {
                let whole = inbox.read(len);
                stream.write_all(inbox.get(whole.clone())).await?;
                inbox.used(whole);
            }
        }
    }
}
