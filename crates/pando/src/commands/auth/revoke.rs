//! `pando auth revoke`: ends what was issued.

use super::args::RevokeArgs;
use super::volume::open;
use crate::console::output;
use crate::failure::Failure;

pub fn run(args: &RevokeArgs) -> Result<(), Failure> {
    let (_, keys) = open(&args.volume)?;
    for ended in keys.revoke(&args.what).map_err(Failure::plain)? {
        output::line(&format!("revoked {}", ended.identity));
    }
    Ok(())
}
