//! `pando auth renew`: issues another certificate to the holder of a key.

use super::add::shown;
use super::args::RenewArgs;
use super::handing::Handing;
use super::volume::open;
use crate::console::output;
use crate::failure::Failure;

pub fn run(args: &RenewArgs) -> Result<(), Failure> {
    let (_, keys) = open(&args.volume)?;
    let own = keys.own_named(&args.name);
    let handing = if own.is_none() { Some(Handing::prepare()?) } else { None };
    let authority = keys.authority(args.authority.ca.as_deref()).map_err(Failure::plain)?;
    let bundle = keys
        .renew(&authority, &args.name, args.days, shown(&args.addresses))
        .map_err(Failure::plain)?;
    match (own, handing) {
        (Some(path), _) => {
            keys.renew_own(&path, &bundle).map_err(Failure::plain)?;
            output::line(&format!("renewed {}", path.display()));
            Ok(())
        }
        (None, Some(handing)) => handing.hand_over(&bundle),
        (None, None) => Ok(()),
    }
}
