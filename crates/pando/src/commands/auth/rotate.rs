//! `pando auth rotate`: replaces the authority of a volume.

use pando_keys::IfInUse;

use super::args::RotateArgs;
use super::volume::open;
use crate::console::output;
use crate::failure::Failure;

pub fn run(args: &RotateArgs) -> Result<(), Failure> {
    let (folder, keys) = open(&args.volume)?;
    let shown = folder.path().display();
    if args.finish {
        let if_in_use = if args.force { IfInUse::End } else { IfInUse::Refuse };
        let ended = keys.finish_rotation(if_in_use).map_err(Failure::plain)?;
        output::line("the old authority has ended; only keys of the new one are valid");
        for ended in ended {
            output::line(&format!("ended {}", ended.identity));
        }
        return Ok(());
    }
    let old = keys.authority(args.ca.as_deref()).map_err(Failure::plain)?;
    keys.rotate(&old, args.ca.as_deref()).map_err(Failure::plain)?;
    let at = args.ca.clone().unwrap_or_else(|| keys.path().join("ca.key"));
    output::line(&format!(
        "two authorities are valid now, and {} has the new one's key. Renew each key with \
         `pando auth renew NAME --volume {shown}`, then end the old authority with \
         `pando auth rotate --finish --volume {shown}`",
        at.display()
    ));
    Ok(())
}
