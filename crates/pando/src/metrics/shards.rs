//! What the shards of this process count.

use babu::LevelStats;
use pando_server::Host;
use pando_server::host::status::Figures;
use pando_server::net::Server;

use super::family::Families;

/// Adds what all shards count that run here, and the connections to their server.
pub fn tell(families: &mut Families, host: &Host, server: &Server) {
    let help = "Connections of clients, servers and tools, over sockets.";
    let connections = f64::from(server.connections());
    families.gauge("pando_server_connections".to_owned(), help, Vec::new(), connections);
    let all = host.figures();
    for figures in &all {
        tell_present(families, figures);
        tell_totals(families, figures);
        tell_store(families, figures);
    }
    let latencies = all.into_iter().flat_map(|figures| {
        let shard = figures.shard.0.to_string();
        let labelled = move |(op, buckets): (&str, _)| {
            (vec![("shard", shard.clone()), ("op", op.to_owned())], buckets)
        };
        figures.latencies.into_iter().map(labelled)
    });
    families.histograms(
        "pando_shard_request_duration_seconds",
        "Time from the arrival of a request of a client until its reply may leave.",
        latencies,
    );
}

fn tell_present(families: &mut Families, figures: &Figures) {
    let (inodes, data_bytes) = figures.size.unwrap_or_default();
    for (name, help, value) in [
        ("failed", "1 if the shard has stopped for an error.", u64::from(figures.has_failed)),
        ("unreadable", "Places of the shard's files that it could not read.", figures.unreadable),
        ("inodes", "Inodes on the shard.", inodes),
        ("data_bytes", "Bytes of the contents of inodes.", data_bytes),
        ("sessions", "Sessions that live, as far as the shard has heard.", figures.sessions),
        (
            "scrub_ended_seconds",
            "When the last whole pass of the scrub ended, seconds since 1970. 0: none has.",
            figures.scrub.ended,
        ),
        (
            "scrub_left_bytes",
            "Bytes of index files that the present pass of the scrub has still to read.",
            figures.scrub.left_bytes,
        ),
        ("inbox", "Inputs that wait for the shard.", figures.inbox),
        ("held", "Messages that wait for a sync of the log.", figures.held),
        ("braked", "Requests that wait since memory is near its limit, or at it.", figures.braked),
        (
            "groups_not_durable",
            "Insert groups of the log that a loss of power could still take.",
            figures.groups_not_durable,
        ),
    ] {
        let labels = vec![("shard", figures.shard.0.to_string())];
        families.gauge(format!("pando_shard_{name}"), help, labels, value as f64);
    }
    families.gauge(
        "pando_shard_pressure".to_owned(),
        "How far the store is behind its writers. 0: they go on. Up to 1: they are slowed. 2: they are stopped.",
        vec![("shard", figures.shard.0.to_string())],
        figures.pressure,
    );
}

fn tell_totals(families: &mut Families, figures: &Figures) {
    let shard = || ("shard", figures.shard.0.to_string());
    for &(name, help, total) in &figures.shell {
        families.counter(format!("pando_server_{name}"), help, vec![shard()], total);
    }
    for count in &figures.machine {
        let name = format!("pando_shard_{}", count.name);
        let mut labels = vec![shard()];
        labels.extend(count.kind.map(|(label, kind)| (label, kind.to_owned())));
        if count.grows {
            families.counter(name, count.help, labels, count.value);
        } else {
            families.gauge(name, count.help, labels, count.value as f64);
        }
    }
    families.counter(
        "pando_shard_groups_written".to_owned(),
        "Insert groups written to the log since the shard was made.",
        vec![shard()],
        figures.groups_written,
    );
}

fn tell_store(families: &mut Families, figures: &Figures) {
    let shard = || ("shard", figures.shard.0.to_string());
    let store = &figures.store;
    for (name, help, value) in store.list() {
        // By convention only the count of a histogram ends in `_count`.
        let name = match name {
            "frozen_count" => "frozen_layers",
            "file_count" => "files",
            name => name,
        };
        families.gauge(format!("pando_store_{name}"), help, vec![shard()], value as f64);
    }
    for (name, help, _) in LevelStats::default().list() {
        families.no_gauge(format!("pando_store_level_{name}"), help);
    }
    for (level, counts) in store.levels.iter().enumerate() {
        for (name, help, value) in counts.list() {
            let labels = vec![shard(), ("level", level.to_string())];
            families.gauge(format!("pando_store_level_{name}"), help, labels, value as f64);
        }
    }
    for (name, help, total) in store.writes.list() {
        families.counter(format!("pando_store_written_{name}"), help, vec![shard()], total);
    }
    for (name, help, total) in store.reads.list() {
        families.counter(format!("pando_store_{name}"), help, vec![shard()], total);
    }
}
