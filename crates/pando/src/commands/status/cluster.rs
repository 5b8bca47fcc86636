//! The status of a volume whose shards are served by several processes.

use std::time::Duration;

use pando_server::admin;
use pando_types::ShardIndex;
use pando_wire::{Ask, Told as wire, uuid};
use serde::Serialize;

use super::tables::shards_table;
use crate::admin::protocol::ServerStatus;
use crate::console::text::count;
use crate::volume::named::Named;
use crate::volume::questioner::Questioner;

/// A server that is not suspended has sent its status by then.
const STATUS_WITHIN: Duration = Duration::from_secs(4);

/// The status of a volume whose shards are served by several processes.
#[derive(Serialize)]
pub struct Cluster {
    running: bool,
    volume: String,
    uuid: String,
    pub servers: Vec<Process>,
}

/// The status of one process of a cluster.
#[derive(Serialize)]
pub struct Process {
    addresses: Vec<String>,
    shards: Vec<u16>,
    /// Why the process does not answer, or `None` if it does.
    pub error: Option<String>,
    #[serde(flatten)]
    status: Option<ServerStatus>,
}

/// Asks every process. `holders` are processes of this machine that serve shards.
pub fn ask_all(named: &Named, questioner: &Questioner, holders: &[(u16, String)]) -> Cluster {
    let mut known = questioner.processes();
    known.sort_by_key(|(_, shards)| shards.first().copied());
    let all: Vec<_> = known.iter().map(|(addresses, _)| addresses.clone()).collect();
    let told = questioner.ask_each(&all, &Ask::Status, STATUS_WITHIN);
    let suspended = |shards: &[ShardIndex]| {
        let mut here = holders.iter().filter(|(held, _)| shards.contains(&ShardIndex(*held)));
        here.find_map(|(_, pid)| admin::suspended(pid.parse().ok()?))
    };
    let mut servers: Vec<Process> = known
        .into_iter()
        .zip(told)
        .map(|((addresses, shards), told)| {
            let status = match told {
                Err(_) if addresses.is_empty() => {
                    Err("none of its addresses can be used from here".to_owned())
                }
                Ok(wire::Json(json)) => {
                    serde_json::from_str(&json).map_err(|error| error.to_string())
                }
                Ok(_) => Err("it sent an unexpected reply".to_owned()),
                Err(error) => Err(match suspended(&shards) {
                    Some(why) => format!("{error}; {why}"),
                    None => error.to_string(),
                }),
            };
            let addresses = addresses.iter().map(|address| address.to_string()).collect();
            let shards = shards.into_iter().map(|shard| shard.0).collect();
            let (status, error) = match status {
                Ok(status) => (Some(status), None),
                Err(error) => (None, Some(error)),
            };
            Process { addresses, shards, error, status }
        })
        .collect();
    let facts = questioner.facts();
    let is_known = |shard: &u16| servers.iter().any(|server| server.shards.contains(shard));
    let missing: Vec<u16> = (0..facts.map.shards).filter(|shard| !is_known(shard)).collect();
    if !missing.is_empty() {
        let error = Some("never started, or at an unknown address".to_owned());
        servers.push(Process { addresses: Vec::new(), shards: missing, error, status: None });
    }
    Cluster { running: true, volume: named.shown(), uuid: uuid(&facts.id), servers }
}

pub fn show_cluster(cluster: &Cluster) -> String {
    let mut text = format!("{} is served (volume {})\n", cluster.volume, cluster.uuid);
    for server in &cluster.servers {
        let shards: Vec<_> = server.shards.iter().map(u16::to_string).collect();
        let what = match (&server.status, &server.error) {
            (Some(status), _) => format!(
                "process {}, for {} s, durability {}",
                status.pid,
                count(status.started_seconds_ago),
                status.durability
            ),
            (None, Some(error)) => format!("NOT REACHED: {error}"),
            (None, None) => String::new(),
        };
        text.push_str(&format!(
            "shards {} at {}: {what}\n",
            shards.join(","),
            server.addresses.join(", ")
        ));
    }
    let statuses = cluster.servers.iter().filter_map(|server| server.status.as_ref());
    text + &shards_table(statuses.flat_map(|status| &status.shards))
}
