//! The helper of mount(8).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use super::child::{Code, enter, pando, parse};
use super::options::flags;
use crate::console::output::say;

/// What the kernel's list of mounts shows before the volume. So a line of fstab may have it, and
/// `mount -a` then knows that the line is mounted already.
const PREFIX: &str = "pando:";

/// Mount a Pando volume, for mount(8)
///
/// `mount -t pando SOURCE DIR -o OPTIONS` and lines of /etc/fstab run this. It returns once the
/// mount is usable. Options are the flags of `pando mount` without their dashes (`key=FILE`, `ro`),
/// and those that concern mount(8) alone (`_netdev`, `nofail`, `x-systemd.automount`).
#[derive(Parser, Debug)]
#[command(
    name = "mount.pando",
    version,
    max_term_width = 100,
    override_usage = "mount.pando SOURCE DIR [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]",
    after_help = "\
Examples:
  mount -t pando /srv/volume /srv/tree
  mount -t pando 10.0.0.1:7400 /srv/tree -o key=/etc/pando/ada.pem,ro

A line of /etc/fstab:
  pando:10.0.0.1:7400  /srv/tree  pando  _netdev,nofail,key=/etc/pando/ada.pem  0 0

Exit codes:
  0   mounted
  1   the command line or an option is wrong
  2   the system refused what the helper needs
  32  nothing was mounted; the message says why"
)]
pub struct MountHelper {
    /// Folder of the volume, or addresses of some of its servers; `pando:` may stand before it
    source: String,
    /// Folder at which the tree is mounted
    dir: PathBuf,
    /// Options, separated by commas; a value that has commas stands in double quotes
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Ignore options that are not known
    #[arg(short)]
    sloppy: bool,
    /// Judge the options, and mount nothing
    #[arg(short)]
    fake: bool,
    /// Write no /etc/mtab; none is ever written
    #[arg(short)]
    no_mtab: bool,
    /// Print what was mounted
    #[arg(short)]
    verbose: bool,
    /// Mount namespace to mount in
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<PathBuf>,
    /// Type of the file system, as mount(8) names it
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

pub fn run(arguments: &[OsString]) -> Code {
    let helper: MountHelper = match parse(arguments) {
        Ok(helper) => helper,
        Err(code) => return code,
    };
    let flags = match flags(&helper.options.join(","), helper.sloppy) {
        Ok(flags) => flags,
        Err(refused) => {
            say!("{refused}");
            return Code::Usage;
        }
    };
    if helper.fake {
        return Code::Done;
    }
    if let Err(code) = enter(helper.namespace.as_deref()) {
        return code;
    }
    let mut command: Vec<OsString> = vec!["mount".into(), "-d".into()];
    command.extend(flags.into_iter().map(OsString::from));
    command.extend(["--".into(), without_prefix(&helper.source).into(), helper.dir.into()]);
    pando(&command, helper.verbose)
}

/// The volume of a source. A server whose host is named `pando` keeps its name: only a port follows
/// there.
fn without_prefix(source: &str) -> &str {
    let rest = source.strip_prefix(PREFIX);
    let is_volume = |rest: &&str| {
        rest.starts_with('/') || rest.split(',').next().is_some_and(|first| first.contains(':'))
    };
    rest.filter(is_volume).unwrap_or(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_may_be_as_the_kernel_lists_it() {
        for (source, volume) in [
            ("/srv/v", "/srv/v"),
            ("pando:/srv/v", "/srv/v"),
            ("10.0.0.1:7400", "10.0.0.1:7400"),
            ("pando:10.0.0.1:7400,b:7400", "10.0.0.1:7400,b:7400"),
            ("pando:unix:/run/v.sock", "unix:/run/v.sock"),
            ("pando:[::1]:7400", "[::1]:7400"),
            ("pando:7400", "pando:7400"),
            ("pando:7400,b:7400", "pando:7400,b:7400"),
            ("pando:pando:7400", "pando:7400"),
        ] {
            assert_eq!(without_prefix(source), volume);
        }
    }

    #[test]
    fn the_command_line_of_the_helper_is_sound() {
        <MountHelper as clap::CommandFactory>::command().debug_assert();
    }
}
