//! The helper of umount(8).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use super::child::{Code, enter, pando, parse};
use crate::console::output::say;

/// Unmount a Pando tree, for umount(8)
///
/// `umount DIR` runs this for a mount of type fuse.pando. It returns once all data is stored, as
/// `pando umount` does.
#[derive(Parser, Debug)]
#[command(
    name = "umount.fuse.pando",
    version,
    max_term_width = 100,
    override_usage = "umount.fuse.pando DIR [-flnrv] [-N NAMESPACE] [-t TYPE]",
    after_help = "\
Exit codes:
  0   unmounted, and all is stored
  1   the command line is wrong
  2   the system refused what the helper needs
  32  it is not unmounted, or data could not be stored; the message says which"
)]
pub struct UmountHelper {
    /// Folder at which the tree is mounted
    dir: PathBuf,
    /// As `pando umount --force`: detach, and wait at most 5 s for servers that do not answer
    #[arg(short)]
    force: bool,
    /// Detach at once; programs may use what they have open, and all is stored when they end
    #[arg(short)]
    lazy: bool,
    /// Write no /etc/mtab; none is ever written
    #[arg(short)]
    no_mtab: bool,
    /// Make a busy mount read-only: this is not done
    #[arg(short)]
    read_only: bool,
    /// Print what was unmounted
    #[arg(short)]
    verbose: bool,
    /// Mount namespace of the mount
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
    /// Type of the file system, as umount(8) names it
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

pub fn run(arguments: &[OsString]) -> Code {
    let helper: UmountHelper = match parse(arguments) {
        Ok(helper) => helper,
        Err(code) => return code,
    };
    if let Err(code) = enter(helper.namespace.as_deref()) {
        return code;
    }
    if helper.lazy {
        return detach(&helper);
    }
    let mut command: Vec<OsString> = vec!["umount".into()];
    if helper.force {
        command.push("--force".into());
    }
    command.extend(["--".into(), helper.dir.into()]);
    pando(&command, helper.verbose)
}

/// The mount's process goes on until the last program has closed its files.
fn detach(helper: &UmountHelper) -> Code {
    match pando_fuse::detach_at(&helper.dir) {
        Ok(()) => Code::Done,
        Err(error) => {
            say!("cannot detach the mount at {}: {error}", helper.dir.display());
            Code::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_the_helper_is_sound() {
        <UmountHelper as clap::CommandFactory>::command().debug_assert();
    }
}
