//! Asks other servers who hosts what.

use std::time::Duration;

use pando_net::{Stream, open};
use pando_wire::{Address, Role};
use tokio::time::timeout;

use crate::common::log::say;
use crate::net::peers::links::Way;

/// Time that a server has to answer when it is asked at the start.
const JOIN_WITHIN: Duration = Duration::from_secs(3);

/// Asks other servers for their tables of hosts. A server that does not answer is named and
/// skipped: it tells this process later, by its own links.
pub(crate) async fn join(way: &Way, servers: &[Address]) {
    for address in servers {
        let attempt = async {
            let stream = Stream::connect(address).await.map_err(|error| error.to_string())?;
            let opened = open(stream, way.volume, Role::Tool, way.keys.as_ref()).await;
            opened.map_err(|error| error.to_string())
        };
        match timeout(JOIN_WITHIN, attempt).await {
            Ok(Ok(opened)) => {
                way.hosts.learn(&opened.welcome.hosts);
                way.revoked.learn(&opened.welcome.revoked);
            }
            Ok(Err(error)) => say(&format!("cannot get addresses of shards at {address}: {error}")),
            Err(_) => say(&format!("cannot get addresses of shards at {address}: no answer")),
        }
    }
}
