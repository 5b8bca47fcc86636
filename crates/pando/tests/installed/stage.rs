//! A mount namespace in which `/sbin` has nothing but Pando's helpers, since mount(8) looks for
//! helpers there alone. `/run` is empty, since mount(8) keeps a table there. No test touches the
//! machine's own `/sbin` and `/run`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::Pid;

use crate::common::namespace::Namespace;
use crate::common::site::Site;
use crate::common::{all, pando};

/// A volume that servers serve, and a mount namespace.
pub struct Stage {
    namespace: Namespace,
    pub site: Site,
    /// An empty folder to mount at.
    pub dir: PathBuf,
}

impl Stage {
    pub fn new() -> Self {
        let site = Site::new(&[], &[]);
        let sbin = site.scratch().join("sbin");
        fs::create_dir(&sbin).unwrap();
        for name in ["mount.pando", "umount.fuse.pando"] {
            symlink(env!("CARGO_BIN_EXE_pando"), sbin.join(name)).unwrap();
        }
        let dir = site.scratch().join("tree");
        fs::create_dir(&dir).unwrap();
        let namespace = Namespace::new(
            Command::new("unshare"),
            "mount --bind \"$1\" \"$(readlink -f /sbin)\"; mount -t tmpfs run /run",
            &[&sbin],
        );
        let mut stage = Self { namespace, site, dir };
        stage.site.serve("all", &["--listen", "127.0.0.1:0"]);
        stage
    }

    /// Runs a program within the namespace.
    pub fn run<T: AsRef<OsStr>>(&self, program: &str, arguments: &[T]) -> Output {
        let mut command = self.namespace.command(program);
        let own = pando();
        for (name, value) in own.get_envs() {
            command.env(name, value.unwrap());
        }
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a script within the namespace, with the mount's folder as `$1`. It must succeed.
    pub fn shell(&self, script: &str) -> String {
        let dir = self.dir.as_os_str();
        let output = self.run("sh", &["-euc".as_ref(), script.as_ref(), "sh".as_ref(), dir]);
        assert!(output.status.success(), "{script}\n{}\n{}", all(&output), self.site.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs mount(8) or umount(8), which must succeed and print nothing.
    pub fn quietly<T: AsRef<OsStr>>(&self, program: &str, arguments: &[T]) {
        let output = self.run(program, arguments);
        assert!(output.status.success(), "{}\n{}", all(&output), self.site.log());
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", all(&output));
    }

    /// The options of the mount, as the kernel lists them. `None`: nothing is mounted.
    pub fn listed(&self) -> Option<String> {
        let list = fs::read_to_string(format!("/proc/{}/mountinfo", self.holder())).unwrap();
        let line = list.lines().find(|line| line.split(' ').nth(4) == self.dir.to_str())?;
        line.split(' ').nth(5).map(str::to_owned)
    }

    /// Processes of Pando within the namespace: of mounts.
    pub fn processes(&self) -> Vec<Pid> {
        self.namespace.processes()
    }

    /// A key of the volume, as its owner issues it.
    pub fn key(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.site.scratch().join("ada.pem");
        let mut command = pando();
        command.args(["auth", "add", "ada", "--volume"]).arg(&self.site.folder);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        fs::write(&path, output.stdout).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// A file within the mount, with `/proc` as the way into the namespace.
    pub fn through(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder()));
        root.join(self.dir.strip_prefix("/").unwrap()).join(name)
    }

    /// A process that keeps the namespace.
    pub fn holder(&self) -> u32 {
        self.namespace.id()
    }
}
