//! One collection of objects that no file names.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pando_fsck::{Collected, Unneeded, collect};
use pando_net::Keys;

use crate::collecting::live::Live;
use crate::failure::Failure;
use crate::sources::objects::StoredObjects;
use crate::volume::connect::objects;
use crate::volume::named::Named;

/// Collects once. `folder` is the folder of objects, if it is not where the servers have it.
/// `is_trial` only counts. The collection ends soon after `stop` is true.
pub fn collect_in(
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
    let unneeded = if is_trial { Unneeded::Count } else { Unneeded::Delete };
    collect(&mut live, shards, &mut objects, ids, unneeded)
        .map_err(|why| Failure::plain(format!("{why}: run it again later")))
}
