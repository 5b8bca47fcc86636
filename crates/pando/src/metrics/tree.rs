//! What the mount of this process counts.

use pando_client::Client;
use pando_data::DataFs;
use pando_fuse::Mounted;
use pando_fuse::device::Measured;
use pando_lent::Counts;

use super::family::Families;

/// Adds what a mount counts: its kernel's requests, its client, and its file contents.
pub fn tell(families: &mut Families, client: &Client, data: &DataFs, mounted: &Mounted) {
    let (requests, present) = mounted.counters();
    families.counters_by_op("pando_mount_requests", "Requests of the kernel.", requests);
    for (name, help) in [
        ("nodes", "Inodes that the kernel knows."),
        ("holds", "1 while the kernel may remember names and attributes."),
        ("pending", "Requests of the kernel that are not answered yet."),
    ] {
        let value = present.iter().find(|(found, _)| *found == name).map_or(0, |(_, value)| *value);
        families.gauge(format!("pando_mount_{name}"), help, Vec::new(), value as f64);
    }
    if let Some(measured) = mounted.measured() {
        tell_measured(families, measured);
    }
    tell_client(families, client);
    tell_data(families, data);
}

fn tell_measured(families: &mut Families, measured: Measured) {
    let labelled = |(op, buckets): (&str, _)| (vec![("op", op.to_owned())], buckets);
    families.histograms(
        "pando_mount_request_duration_seconds",
        "Time from the arrival of a request of the kernel to its answer.",
        measured.latencies.into_iter().map(labelled),
    );
    for (name, help, total) in [
        ("read_bytes", "Bytes that requests of the kernel have read.", measured.read_bytes),
        (
            "written_bytes",
            "Bytes that requests of the kernel have written.",
            measured.written_bytes,
        ),
    ] {
        families.counter(format!("pando_mount_{name}"), help, Vec::new(), total);
    }
}

fn tell_client(families: &mut Families, client: &Client) {
    let counters = client.counters();
    let help = "Requests to shards, tries included.";
    families.counters_by_op("pando_client_requests", help, counters.requests_by_op());
    for (name, help, total) in counters.list() {
        families.counter(format!("pando_client_{name}"), help, Vec::new(), total);
    }
    let [never_ran, has_run] = counters.resolved();
    for (outcome, total) in [("never_ran", never_ran), ("has_run", has_run)] {
        let help = "Requests that were given up and of which the client has learnt the outcome.";
        let labels = vec![("outcome", outcome.to_owned())];
        families.counter("pando_client_resolved".to_owned(), help, labels, total);
    }
    for (name, help, value) in [
        ("doubts", "Requests that were given up and may or may not have run.", client.doubts()),
        ("known_inodes", "Inodes that the client knows.", client.known_inodes()),
    ] {
        families.gauge(format!("pando_client_{name}"), help, Vec::new(), value as f64);
    }
}

fn tell_data(families: &mut Families, data: &DataFs) {
    let cache_bytes = data.objects().cache_bytes() as u64;
    for (name, help, value) in [
        (
            "dirty_bytes",
            "Bytes that programs wrote and that are not stored yet.",
            data.dirty_bytes(),
        ),
        (
            "lost_bytes",
            "Bytes that programs wrote and that could not be stored.",
            data.lost_bytes(),
        ),
        ("cache_bytes", "Memory of the cache of contents.", cache_bytes),
    ] {
        families.gauge(format!("pando_data_{name}"), help, Vec::new(), value as f64);
    }
    for (name, help, total) in data.objects().counts() {
        families.counter(format!("pando_objects_{name}"), help, Vec::new(), total);
    }
}

/// Adds what shards have lent to the mount.
pub fn tell_lent(families: &mut Families, counts: Counts) {
    for (name, help, value) in counts.now() {
        families.gauge(format!("pando_lent_{name}"), help, Vec::new(), value as f64);
    }
    for (name, help, total) in counts.so_far() {
        families.counter(format!("pando_lent_{name}"), help, Vec::new(), total);
    }
}
