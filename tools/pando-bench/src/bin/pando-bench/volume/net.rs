//! A connection to a volume's servers whose sockets are served by a thread of their own, as in a
//! mount.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use pando_client::Transport;
use pando_client::net::Net;
use tokio::sync::oneshot;

use super::named::Named;
use crate::output::failure::Failure;

/// The thread ends when this is dropped.
pub struct Connection {
    pub transport: Arc<dyn Transport>,
    _end: oneshot::Sender<()>,
}

/// Connects to a volume's servers.
pub fn connect(named: &Named, key: Option<&PathBuf>) -> Result<Connection, Failure> {
    let (target, options) = (named.target(), named.options(key)?);
    let (send, receive) = mpsc::channel();
    let (end, ended) = oneshot::channel();
    let body = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(send.send(Err(error.to_string()))),
        };
        runtime.block_on(async {
            match Net::connect(&target, options).await {
                Ok((net, _)) => {
                    let _ = send.send(Ok(net));
                    let _ = ended.await;
                }
                Err(error) => drop(send.send(Err(error.to_string()))),
            }
        });
    };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::plain(format!("cannot connect to {}: {error}", named.shown()))
    };
    std::thread::Builder::new()
        .name("bench-net".to_owned())
        .spawn(body)
        .map_err(|error| failed(&error))?;
    let net = receive.recv().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(Connection { transport: net, _end: end })
}
