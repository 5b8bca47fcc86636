//! `pando auth list`: shows the certificates that were issued.

use std::collections::BTreeSet;
use std::time::SystemTime;

use pando_keys::{Issued, KeysFolder, Serial};
use serde::Serialize;

use super::args::ListArgs;
use super::volume::open;
use crate::console::output;
use crate::console::text::table;
use crate::failure::Failure;

#[derive(Serialize)]
struct Row {
    name: String,
    role: String,
    read_only: bool,
    squash: Option<String>,
    serial: String,
    id: String,
    /// End of its validity, as RFC 3339.
    not_after: String,
    addresses: Vec<String>,
    /// `valid`, `revoked`, `expired`, or `ended` if its authority does not count any more.
    state: &'static str,
    /// Whether the holder was issued a later certificate.
    renewed: bool,
    authority: String,
}

pub fn run(args: &ListArgs) -> Result<(), Failure> {
    let (_, keys) = open(&args.volume)?;
    let rows = rows(&keys, args.all)?;
    if args.json {
        output::json(&serde_json::json!({ "keys": rows }));
        return Ok(());
    }
    let heading = ["name", "role", "options", "until", "state", "serial"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines.extend(rows.into_iter().map(|row| {
        let options = row.read_only.then(|| "ro".to_owned()).into_iter().chain(row.squash);
        let options = options.collect::<Vec<_>>().join(",");
        let state =
            if row.renewed { format!("{}, renewed", row.state) } else { row.state.to_owned() };
        let until = row.not_after.get(..10).unwrap_or_default().to_owned();
        vec![row.name, row.role, options, until, state, row.serial]
    }));
    output::line(table(&lines).trim_end_matches('\n'));
    Ok(())
}

fn rows(keys: &KeysFolder, all: bool) -> Result<Vec<Row>, Failure> {
    let revoked = keys.trust().map_err(Failure::plain)?.revoked;
    let valid = keys.valid().map_err(Failure::plain)?;
    let valid: BTreeSet<Serial> = valid.iter().map(|issued| issued.identity.serial).collect();
    let issued = keys.issued().map_err(Failure::plain)?;
    let now = SystemTime::now();
    let rows = issued.iter().enumerate().map(|(at, one)| {
        let Issued { identity, not_after, authority, addresses } = one;
        let state = match identity.serial {
            serial if valid.contains(&serial) => "valid",
            serial if revoked.contains(&serial) => "revoked",
            _ if SystemTime::from(*not_after) <= now => "expired",
            _ => "ended",
        };
        Row {
            name: identity.name.clone(),
            role: identity.role.to_string(),
            read_only: identity.read_only,
            squash: identity.squash.map(|squash| squash.to_string()),
            serial: identity.serial.to_string(),
            id: format!("{:016x}", identity.key.0),
            not_after: one.until(),
            addresses: addresses.clone(),
            state,
            renewed: issued[at + 1..].iter().any(|later| later.identity.key == identity.key),
            authority: authority.to_string(),
        }
    });
    Ok(rows.filter(|row| all || row.state == "valid").collect())
}
