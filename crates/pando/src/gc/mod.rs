//! `pando gc`: deletes objects that no file names while the volume runs. Servers also do this by
//! themselves ([`by_itself`]).

pub mod by_itself;
mod live;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pando_fsck::{Collected, collect};
use pando_net::Keys;

use crate::cli::GcArgs;
use crate::connect::{Named, objects};
use crate::failure::Failure;
use crate::fsck::StoredObjects;
use crate::text::{bytes, count, several};
use crate::{keys, output};
use live::Live;

pub fn run(args: &GcArgs) -> Result<ExitCode, Failure> {
    let named = Named::parse(&args.target)?;
    let keys = keys::find(&named, args.key.as_ref())?;
    let objects = args.objects.as_ref();
    let collected = collect_in(&named, keys, objects, (args.dry_run, &Arc::default()))?;
    if args.json {
        output::json(&serde_json::json!({
            "objects": collected.objects,
            "of_sessions_that_live": collected.of_the_living,
            "unneeded": collected.collected,
            "bytes": collected.bytes,
            "deleted": !args.dry_run,
        }));
    } else {
        output::line(&told(&collected, args.dry_run));
    }
    Ok(ExitCode::SUCCESS)
}

/// Collects once. `folder` is the folder of objects, if it is not where the servers have it.
/// `is_trial` only counts. The collection ends soon after `stop` is true.
fn collect_in(
    named: &Named,
    keys: Option<Keys>,
    folder: Option<&PathBuf>,
    (is_trial, stop): (bool, &Arc<AtomicBool>),
) -> Result<Collected, Failure> {
    let mut live = Live::new(named, keys, Arc::clone(stop))?;
    let mut objects = StoredObjects::open(&objects(live.facts(), folder)?)?;
    let mut id = getrandom::u64().map_err(Failure::plain)?;
    let ids = || {
        id = id.wrapping_add(1);
        id
    };
    let shards = live.shards();
    collect(&mut live, shards, &mut objects, ids, is_trial)
        .map_err(|why| Failure::plain(format!("{why}: run it again later")))
}

fn told(collected: &Collected, is_trial: bool) -> String {
    let Collected { objects, of_the_living, collected, bytes: size } = *collected;
    let done = if is_trial { "would be deleted" } else { "deleted" };
    format!(
        "{} that no file names {done} ({}), of {}; {} of sessions that live were left alone",
        several(collected, "object", "objects"),
        bytes(size),
        count(objects),
        count(of_the_living)
    )
}
