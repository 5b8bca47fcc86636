//! Metrics over HTTP: what they tell, that documents and alerts know them, and what strangers can
//! do at the address.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::common::exposition::{Exposition, parse};
use crate::common::site::{Site, until};
use crate::common::{Volume, all, shell};

const METRICS: [&str; 2] = ["--metrics", "127.0.0.1:0"];
const SECRET: &str = "a-name-that-nobody-is-told";

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The answer on a connection: its head and its body.
fn answer(mut stream: &TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    (head.to_owned(), body.to_owned())
}

fn ask(address: &str, request: &[u8]) -> (String, String) {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    answer(&stream)
}

fn scrape(address: &str) -> Exposition {
    let (head, body) = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(!body.contains(SECRET), "{body}");
    parse(&body).unwrap_or_else(|wrong| panic!("{wrong}\n{body}"))
}

/// A volume that tells metrics, and where.
fn up() -> (Volume, String) {
    let mut volume = Volume::down();
    let output = volume.try_start(&METRICS);
    assert!(output.status.success(), "{}", all(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    (volume, summary["metrics"].as_str().unwrap().to_owned())
}

#[test]
fn what_servers_and_mounts_do_is_told() {
    let mut site = Site::new(&["0,1", "2,3"], &METRICS);
    site.mount(&METRICS);
    let [one, other, mount] = site.metrics.clone().try_into().unwrap();
    let inodes = || {
        let servers = [scrape(&one), scrape(&other)];
        servers.iter().map(|server| server.sum("pando_shard_inodes", &[])).sum::<f64>()
    };
    let (before, inodes_before) = (scrape(&mount), inodes());
    shell(&site.at(0, ""), &format!("mkdir d && cd d && seq 100 | xargs touch && touch {SECRET}"));
    let file = fs::File::create(site.at(0, "large")).unwrap();
    (&file).write_all(&vec![1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let after = scrape(&mount);
    let rose =
        |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    assert!(rose("pando_mount_requests_total", &[("op", "CREATE")]) >= 102.0);
    assert!(rose("pando_objects_stored_bytes_total", &[]) >= f64::from(1 << 20));
    assert!(rose("pando_client_requests_total", &[("op", "Mkdir")]) >= 1.0);
    // What was lent goes to the shards a moment later.
    until("all files are on the shards", || inodes() >= inodes_before + 103.0);
    let (one, other) = (scrape(&one), scrape(&other));
    let requests =
        |server: &Exposition, shard| server.sum("pando_server_requests_total", &[("shard", shard)]);
    assert!(requests(&one, "0") > 0.0 && requests(&one, "2") == 0.0);
    let latency = "pando_shard_request_duration_seconds_count";
    assert!(one.sum(latency, &[]) + other.sum(latency, &[]) > 0.0);
    // To scrape asks nothing of shards.
    let sessions = |it: &Exposition| it.sum(latency, &[("op", "StatFs")]);
    assert_eq!(sessions(&one) + sessions(&other), 0.0);
}

/// Whatever `pando status` counts is told, with the same value.
#[test]
fn what_status_shows_is_told() {
    let (volume, address) = up();
    // Of so many directories some have another home than their parent: these take transactions.
    shell(&volume.mount, "seq -f d%g 20 | xargs mkdir; seq 100 | xargs touch");
    let (status, told) = (volume.status(), scrape(&address));
    for shard in status["shards"].as_array().unwrap() {
        let label = shard["shard"].to_string();
        let of_shard = |name: &str| {
            let names = [format!("pando_shard_{name}_total"), format!("pando_server_{name}_total")];
            let all = told.names();
            let name = names.iter().find(|name| all.contains(*name))?;
            Some(told.sum(name, &[("shard", &label)]))
        };
        for (name, count) in shard["counters"].as_object().unwrap() {
            let short = name.strip_prefix("shard_").unwrap_or(name);
            let (kind, what) = short.rsplit_once('_').unwrap_or_default();
            let found = if let Some(reason) = short.strip_prefix("improper_") {
                told.sum("pando_shard_improper_total", &[("shard", &label), ("reason", reason)])
            } else if ["begun", "committed", "remote", "alive"].contains(&what)
                && name.starts_with("shard_")
                && name != "shard_sessions_begun"
            {
                let total = if what == "alive" { "" } else { "_total" };
                let name = format!("pando_shard_txns_{what}{total}");
                told.sum(&name, &[("shard", &label), ("kind", kind)])
            } else {
                of_shard(short).unwrap_or_else(|| panic!("{name} is not told"))
            };
            // The scrape came after the status, and the shards go on.
            assert!(
                found >= count.as_f64().unwrap() || what == "alive",
                "{name}: {found}, {count}"
            );
        }
    }
    assert!(told.sum("pando_shard_txns_committed_total", &[("kind", "mkdir")]) >= 1.0);
}

/// The repository's folder.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// What any process of Pando tells.
fn everything() -> Exposition {
    let mut site = Site::new(&["all"], &METRICS);
    site.mount(&METRICS);
    let mut told = BTreeMap::new();
    site.metrics.iter().for_each(|address| told.extend(scrape(address).0));
    let (_volume, address) = up();
    for (name, family) in scrape(&address).0 {
        let known = told.entry(name).or_insert_with(|| panic!("only `pando up` tells it"));
        assert_eq!((&known.kind, &known.help), (&family.kind, &family.help));
    }
    Exposition(told)
}

/// docs/METRICS.md lists all metrics, and queries that are shipped name no others.
#[test]
fn documents_alerts_and_panels_know_the_metrics() {
    let told = everything();
    let row = |(name, family): (&String, &crate::common::exposition::Family)| {
        let names: Vec<_> = match family.kind.as_str() {
            "histogram" => vec![format!("`{name}`")],
            _ => Exposition::suffixed(name, family).iter().map(|it| format!("`{it}`")).collect(),
        };
        format!("| {} | {} | {} |", names.join(", "), family.kind, family.help)
    };
    let expected: Vec<_> = told.0.iter().map(row).collect();
    let page = fs::read_to_string(repository().join("docs/METRICS.md")).unwrap();
    let found: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(found, expected, "docs/METRICS.md should have:\n{}", expected.join("\n"));

    let names = told.names();
    for file in ["pando.rules.yml", "pando.rules.test.yml", "pando.dashboard.json"] {
        let text = fs::read_to_string(repository().join("contrib/prometheus").join(file)).unwrap();
        let words = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
        let used: BTreeSet<_> = words.filter(|word| word.starts_with("pando_")).collect();
        assert!(used.len() > 5, "{file}");
        let unknown: Vec<_> = used.iter().filter(|used| !names.contains(**used)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

/// What Grafana shows badly, or not at all.
#[test]
fn the_dashboard_is_sound() {
    let path = repository().join("contrib/prometheus/pando.dashboard.json");
    let board: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let (mut ids, mut titles, mut cells) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in board["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is not its own");
        assert!(titles.insert(title), "{title} is there twice");
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title} is too wide");
        for cell in (at("x")..at("x") + at("w"))
            .flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(cells.insert(cell), "{title} lies over another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{title}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            assert!(query.contains("instance=~\"$instance\""), "{title}: {query}");
            assert!(!target["legendFormat"].as_str().unwrap().is_empty(), "{title}");
            // Counters are of use only as rates, and rates only of counters.
            let is_rate = query.contains("[$__rate_interval]");
            let is_counter =
                ["_total{", "_bucket{", "_count{"].iter().any(|end| query.contains(end));
            assert_eq!(is_rate, is_counter, "{title}: {query}");
        }
    }
    let names: Vec<_> =
        board["templating"]["list"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(names, ["datasource", "instance"]);
}

#[test]
fn strangers_get_an_answer_and_keep_nobody_out() {
    let (_volume, address) = up();
    let large = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
        ("\u{0}\u{1}nonsense\r\n\r\n", "400"),
        (&large, "431"),
    ] {
        let (head, body) = ask(&address, request.as_bytes());
        assert!(head.starts_with(&format!("HTTP/1.1 {expected} ")), "{head}");
        assert!(body.starts_with(expected), "{body}");
        assert_eq!(head.contains("\r\nAllow: GET\r\n"), expected == "405", "{head}");
    }
    // One says nothing, one speaks slowly, and many more than are served together follow.
    let mut slow: Vec<_> = (0..40).map(|_| connect(&address)).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /metr").unwrap());
    scrape(&address);
    // The oldest was ended: for the newer ones, or on a slow machine since its time was over.
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408 "), "{rest:?}");
    // The newest has its time, and is told that it is over.
    let (head, _) = answer(&slow[39]);
    assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
    scrape(&address);
}

#[test]
fn an_address_that_is_in_use_is_named() {
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used.local_addr().unwrap().to_string();
    let mut volume = Volume::down();
    let output = volume.try_start(&["--metrics", &address]);
    assert_eq!(output.status.code(), Some(4), "{}", all(&output));
    assert!(
        all(&output).contains(&format!("cannot tell metrics at {address}: ")),
        "{}",
        all(&output)
    );
    let output = volume.try_start(&["--metrics", "nonsense"]);
    assert_eq!(output.status.code(), Some(2), "{}", all(&output));
    // The address is free, and the volume is not held by who failed.
    drop(used);
    volume.start(&["--metrics", &address]);
    scrape(&address);
}

/// What the reader is worth: texts that each break one rule.
#[test]
fn what_breaks_a_rule_is_not_read() {
    const GOOD: &str = "# HELP a A.\n# TYPE a counter\na_total{b=\"c\\\"d,e}\"} 1\n# EOF\n";
    assert_eq!(parse(GOOD).unwrap().sum("a_total", &[("b", "c\"d,e}")]), 1.0);
    for (from, to) in [
        ("# EOF\n", ""),
        ("# HELP a A.\n", ""),
        ("a_total{", "a{"),
        ("a_total{", "b_total{"),
        (" counter", " counted"),
        ("} 1", "} -1"),
        ("} 1", "} x"),
        ("# EOF", "a_total{b=\"c\\\"d,e}\"} 2\n# EOF"),
        ("# EOF", "# HELP b B.\n# TYPE b gauge\n# HELP a A.\n# EOF"),
        (
            "# EOF",
            "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 1\nh_sum 1\n# EOF",
        ),
        (
            "# EOF",
            "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_count 1\nh_sum 1\n# EOF",
        ),
    ] {
        assert!(parse(&GOOD.replace(from, to)).is_err(), "{from} -> {to}");
    }
}
