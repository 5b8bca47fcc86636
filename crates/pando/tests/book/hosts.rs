//! Three hosts as a reader of the book has them: each has a network, `/srv`, `/root` and `/run` of
//! its own, and the program installed. Of `ssh`, `pkill` and NFS they have what stands in `bin/`
//! beside this file, since hosts are namespaces of one machine.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::Scratch;
use crate::common::lan::Lan;
use crate::common::namespace::Namespace;

const HOSTS: u8 = 3;
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
/// Seconds after which a block is killed. It takes some seconds, unless the machine is very busy.
const PATIENCE: &str = "300";

/// Makes the folders of host `$2` of those in `$1`. `/root` comes last: programs may be below it.
const FOLDERS: &str = "
mount --bind \"$1\" /mnt
mount --bind /mnt/bin /usr/local/bin
mount --bind \"/mnt/$2/srv\" /srv
mount --bind /mnt/sbin \"$(readlink -f /sbin)\"
mount -t tmpfs run /run
mount --bind \"/mnt/$2/root\" /root
";

/// Fields are dropped in this order.
pub struct Hosts {
    hosts: Vec<Namespace>,
    _lan: Lan,
    scratch: Scratch,
}

impl Hosts {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let root = scratch.path();
        install(root);
        let lan = Lan::new("10.0.0", HOSTS);
        let host = |number| {
            let name = format!("host{number}");
            for folder in ["srv", "root"] {
                fs::create_dir_all(root.join(&name).join(folder)).unwrap();
            }
            let unshare = lan.command(number, "unshare".as_ref());
            let arguments = [root.as_os_str(), name.as_ref()];
            let namespace = Namespace::new(unshare, FOLDERS, &arguments);
            fs::write(root.join("bin/hosts").join(&name), namespace.id().to_string()).unwrap();
            namespace
        };
        let hosts = (1..=HOSTS).map(host).collect();
        Self { hosts, _lan: lan, scratch }
    }

    /// Ends all that runs on the hosts. Nothing of them may be left.
    pub fn end(self) {
        let folder = self.scratch.path().to_owned();
        drop(self);
        assert!(!folder.exists(), "{} is left", folder.display());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(folder.to_str().unwrap()), "{} is mounted", folder.display());
    }

    /// Runs a script on a host as its root does who has just logged in, but ends it at the first
    /// command that fails. Both outputs are one.
    pub fn run(&self, host: u8, script: &str) -> Output {
        let mut command = self.hosts[usize::from(host) - 1].command("env");
        command.args(["-i", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"]);
        command.arg(format!("PATH={PATH}"));
        command.args(["timeout", "--signal=KILL", PATIENCE, "bash", "-euo", "pipefail", "-c"]);
        command.arg(format!("exec 2>&1; cd\n{script}"));
        command.stdin(Stdio::null()).output().unwrap()
    }
}

/// What all hosts have in `/usr/local/bin` and `/sbin`.
fn install(root: &Path) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/book/bin");
    let [bin, sbin] = ["bin", "sbin"].map(|folder| root.join(folder));
    fs::create_dir_all(bin.join("hosts")).unwrap();
    fs::create_dir(&sbin).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_pando"), bin.join("pando")).unwrap();
    for name in ["ssh", "pkill"] {
        fs::copy(ours.join(name), bin.join(name)).unwrap();
    }
    fs::copy(ours.join("mount.nfs"), sbin.join("mount.nfs")).unwrap();
    for helper in ["mount.pando", "umount.fuse.pando"] {
        std::os::unix::fs::symlink("/usr/local/bin/pando", sbin.join(helper)).unwrap();
    }
}
